// program URL ACTION …: what a user of go-amqp does. The actions are those of ../proton/program.py but for transactions and an anonymous
// relay, which go-amqp has not; each prints a line of JSON for a message.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
)

type line map[string]any

func say(what line) {
	text, err := json.Marshal(what)
	check(err)
	fmt.Println(string(text))
}

func check(err error) {
	if err != nil {
		text, _ := json.Marshal(line{"error": err.Error()})
		fmt.Println(string(text))
		os.Exit(1)
	}
}

var background = context.Background()

func capabilities(address string) (string, []string) {
	kind, name, found := strings.Cut(address, ":")
	if !found {
		return address, nil
	}
	return name, []string{kind}
}

func newSender(session *amqp.Session, address string) *amqp.Sender {
	name, of := capabilities(address)
	sender, err := session.NewSender(background, name, &amqp.SenderOptions{TargetCapabilities: of})
	check(err)
	return sender
}

func newReceiver(session *amqp.Session, address string, filters ...amqp.LinkFilter) *amqp.Receiver {
	name, of := capabilities(address)
	options := &amqp.ReceiverOptions{SourceCapabilities: of, Credit: -1, Filters: filters}
	receiver, err := session.NewReceiver(background, name, options)
	check(err)
	return receiver
}

func numbered(number int) *amqp.Message {
	return &amqp.Message{
		Header:                &amqp.MessageHeader{Durable: true, Priority: 4},
		Value:                 strconv.Itoa(number),
		ApplicationProperties: map[string]any{"number": int32(number)},
	}
}

func send(session *amqp.Session, address string, count int) {
	sender := newSender(session, address)
	for number := 0; number < count; number++ {
		check(sender.Send(background, numbered(number), nil)) // an error, unless it is accepted
		say(line{"sent": strconv.Itoa(number), "outcome": "accepted"})
	}
}

func settle(receiver *amqp.Receiver, message *amqp.Message, outcome string) {
	switch outcome {
	case "accepted":
		check(receiver.AcceptMessage(background, message))
	case "rejected":
		why := &amqp.Error{Condition: "amqp:not-allowed", Description: "no order"}
		check(receiver.RejectMessage(background, message, why))
	case "released":
		check(receiver.ReleaseMessage(background, message))
	case "failed", "undeliverable":
		how := &amqp.ModifyMessageOptions{DeliveryFailed: true, UndeliverableHere: outcome == "undeliverable"}
		check(receiver.ModifyMessage(background, message, how))
	}
}

func brief(message *amqp.Message) {
	count := uint32(0)
	if message.Header != nil {
		count = message.Header.DeliveryCount
	}
	say(line{"body": message.Value, "count": count, "number": message.ApplicationProperties["number"]})
}

func receive(receiver *amqp.Receiver, count int, outcome string) {
	check(receiver.IssueCredit(uint32(count)))
	for ; count > 0; count-- {
		message, err := receiver.Receive(background, nil)
		check(err)
		brief(message)
		settle(receiver, message, outcome)
	}
}

// go-amqp drains with no credit, so that nothing comes after it: it is done when nothing has come for a while.
func drain(receiver *amqp.Receiver) {
	check(receiver.IssueCredit(100_000))
	patience := 2 * time.Second
	for {
		quiet, cancel := context.WithTimeout(background, patience)
		message, err := receiver.Receive(quiet, nil)
		cancel()
		if err != nil {
			break
		}
		brief(message)
		settle(receiver, message, "accepted")
		patience = 500 * time.Millisecond
	}
	limit, cancel := context.WithTimeout(background, 2*time.Second)
	defer cancel()
	if err := receiver.DrainCredit(limit, nil); err != nil {
		say(line{"drained": false})
	}
}

func pointer[T any](value T) *T { return &value }

func complete() *amqp.Message {
	return &amqp.Message{
		Header: &amqp.MessageHeader{Durable: true, Priority: 7, TTL: time.Hour},
		Properties: &amqp.MessageProperties{
			MessageID:      "ID:one",
			UserID:         []byte("anonymous"),
			Subject:        pointer("order"),
			ReplyTo:        pointer("answers"),
			CorrelationID:  "first",
			ContentType:    pointer("text/plain"),
			CreationTime:   pointer(time.UnixMilli(1_700_000_000_000)),
			GroupID:        pointer("group"),
			GroupSequence:  pointer(uint32(7)),
			ReplyToGroupID: pointer("answers-group"),
		},
		ApplicationProperties: map[string]any{
			"truth": true, "byte": int8(-128), "short": int16(-32768), "int": int32(math.MinInt32), "long": int64(math.MinInt64),
			"float": float32(0.5), "double": 1e300, "text": "grün", "nothing": nil,
			"ubyte": uint8(255), "ushort": uint16(65535), "uint": uint32(math.MaxUint32), "ulong": uint64(math.MaxUint64),
			"when": time.UnixMilli(1_700_000_000_000), "symbol": amqp.Symbol("sign"), "bytes": []byte{0, 255},
			"uuid": amqp.UUID{0x12, 0x34, 0x56, 0x78, 0x12, 0x34, 0x56, 0x78, 0x12, 0x34, 0x56, 0x78, 0x12, 0x34, 0x56, 0x78},
		},
		Value: "grün",
	}
}

func shown(value any) []any {
	switch it := value.(type) {
	case nil:
		return []any{"null", nil}
	case bool:
		return []any{"boolean", it}
	case int8:
		return []any{"byte", it}
	case int16:
		return []any{"short", it}
	case int32:
		return []any{"int", it}
	case int64:
		return []any{"long", it}
	case float32:
		return []any{"float", it}
	case float64:
		return []any{"double", it}
	case string:
		return []any{"string", it}
	case uint8:
		return []any{"ubyte", it}
	case uint16:
		return []any{"ushort", it}
	case uint32:
		return []any{"uint", it}
	case uint64:
		return []any{"ulong", it}
	case time.Time:
		return []any{"timestamp", it.UnixMilli()}
	case amqp.UUID:
		return []any{"uuid", it.String()}
	case amqp.Symbol:
		return []any{"symbol", it}
	case []byte:
		return []any{"binary", hex.EncodeToString(it)}
	}
	return []any{"other", fmt.Sprint(value)}
}

func show(receiver *amqp.Receiver) {
	check(receiver.IssueCredit(1))
	message, err := receiver.Receive(background, nil)
	check(err)
	properties := line{}
	for name, value := range message.ApplicationProperties {
		properties[name] = shown(value)
	}
	of, header := message.Properties, message.Header
	say(line{
		"body": message.Value, "durable": header.Durable, "priority": header.Priority, "ttl": header.TTL.Milliseconds(),
		"id": of.MessageID, "user": string(of.UserID), "subject": of.Subject, "reply_to": of.ReplyTo,
		"correlation": of.CorrelationID, "content_type": of.ContentType,
		"created": of.CreationTime.UnixMilli(), "group": of.GroupID, "sequence": of.GroupSequence,
		"reply_group": of.ReplyToGroupID, "properties": properties,
	})
	settle(receiver, message, "accepted")
}

func request(session *amqp.Session, address string, body string) {
	options := &amqp.ReceiverOptions{DynamicAddress: true, SourceCapabilities: []string{"temporary-queue"}, Credit: 1}
	answers, err := session.NewReceiver(background, "", options)
	check(err)
	question := &amqp.Message{
		Properties: &amqp.MessageProperties{ReplyTo: pointer(answers.Address()), CorrelationID: "asked"},
		Value:      body,
	}
	check(newSender(session, address).Send(background, question, nil))
	message, err := answers.Receive(background, nil)
	check(err)
	say(line{"reply": message.Value, "correlation": message.Properties.CorrelationID})
	settle(answers, message, "accepted")
}

func serve(session *amqp.Session, address string, count int) {
	receiver := newReceiver(session, address)
	check(receiver.IssueCredit(uint32(count)))
	say(line{"serving": address})
	for ; count > 0; count-- {
		asked, err := receiver.Receive(background, nil)
		check(err)
		answer := &amqp.Message{
			Properties: &amqp.MessageProperties{CorrelationID: asked.Properties.CorrelationID},
			Value:      fmt.Sprintf("re: %v", asked.Value),
		}
		sender := newSender(session, *asked.Properties.ReplyTo)
		check(sender.Send(background, answer, nil))
		check(sender.Close(background))
		settle(receiver, asked, "accepted")
		say(line{"replied": true})
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func main() {
	url, action, arguments := os.Args[1], os.Args[2], os.Args[3:]
	connection, err := amqp.Dial(background, url, &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous()})
	check(err)
	session, err := connection.NewSession(background, nil)
	check(err)
	address := arguments[0]
	switch action {
	case "send":
		send(session, address, number(arguments[1]))
	case "flood":
		send(session, address, math.MaxInt)
	case "receive":
		receive(newReceiver(session, address), number(arguments[1]), arguments[2])
	case "hold":
		receive(newReceiver(session, address), number(arguments[1]), "held")
		select {} // until it is killed
	case "drain":
		drain(newReceiver(session, address))
	case "select":
		receive(newReceiver(session, address, amqp.NewSelectorFilter(arguments[2])), number(arguments[1]), "accepted")
	case "types":
		check(newSender(session, address).Send(background, complete(), nil))
		say(line{"sent": "grün", "outcome": "accepted"})
	case "show":
		show(newReceiver(session, address))
	case "request":
		request(session, address, arguments[1])
	case "serve":
		serve(session, address, number(arguments[1]))
	}
	check(connection.Close())
}
