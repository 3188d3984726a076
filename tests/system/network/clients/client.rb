# Each step that a Ruby program takes with the stomp gem; prints "ok STEP". Arguments: host, port.
require "stomp"
require "timeout"

host, port = ARGV[0], ARGV[1].to_i

def connect(host, port, version, client_id = nil)
  headers = { "accept-version" => version, "host" => "broker" }
  headers["client-id"] = client_id if client_id
  Stomp::Connection.open("", "", host, port, false, 5, headers)
end

def receive(connection)
  Timeout.timeout(15) { connection.receive }
end

%w[1.0 1.1 1.2].each do |version|
  connection = connect(host, port, version)
  raise connection.protocol unless connection.protocol == version
  queue = "/queue/ruby-#{version}"
  %w[auto client client-individual].each do |mode|
    id = "s-#{mode}"
    connection.subscribe(queue, { "id" => id, "ack" => mode })
    connection.publish(queue, "hello #{mode}", { "receipt" => "r-#{mode}", "cups" => "2" })
    frames = [receive(connection), receive(connection)]
    message = frames.find { |frame| frame.command == "MESSAGE" }
    raise frames.inspect unless message.body == "hello #{mode}" && message.headers["cups"] == "2"
    raise frames.inspect unless frames.any? { |frame| frame.command == "RECEIPT" }
    if mode != "auto"
      key = version == "1.2" ? message.headers["ack"] : message.headers["message-id"]
      connection.ack(key, { "id" => version == "1.2" ? key : id, "subscription" => id })
    end
    connection.unsubscribe(queue, { "id" => id })
    puts "ok #{version} #{mode}"
  end

  connection.begin("t")
  connection.publish(queue, "undone", { "transaction" => "t" })
  connection.abort("t")
  connection.begin("u")
  connection.publish(queue, "done", { "transaction" => "u" })
  connection.commit("u")
  connection.subscribe(queue, { "id" => "look", "browser" => "true" })
  browsed = [receive(connection), receive(connection)]
  raise browsed.inspect unless browsed[0].body == "done" && browsed[1].headers["browser"] == "end"
  puts "ok #{version} transactions and browser"

  if version != "1.0"
    connection.subscribe(queue, { "id" => "n", "ack" => "client-individual" })
    first = receive(connection)
    key = version == "1.2" ? first.headers["ack"] : first.headers["message-id"]
    connection.nack(key, { "id" => version == "1.2" ? key : "n", "subscription" => "n" })
    again = receive(connection)
    raise again.inspect unless again.body == "done" && again.headers["redelivered"] == "true"
    key = version == "1.2" ? again.headers["ack"] : again.headers["message-id"]
    connection.ack(key, { "id" => version == "1.2" ? key : "n", "subscription" => "n" })
    puts "ok #{version} nack"
  end
  connection.disconnect
end

subscribing = { "id" => "d", "durable-subscription-name" => "all" }
connection = connect(host, port, "1.2", "ruby")
connection.subscribe("/topic/news", subscribing.merge("receipt" => "s"))
receive(connection)
connection.disconnect
other = connect(host, port, "1.2")
other.publish("/topic/news", "while away", { "receipt" => "p", "persistent" => "true" })
receive(other)
other.disconnect
connection = connect(host, port, "1.2", "ruby")
connection.subscribe("/topic/news", subscribing)
message = receive(connection)
raise message.inspect unless message.body == "while away"
connection.unsubscribe("/topic/news", subscribing)
connection.disconnect
puts "ok durable"
puts "all done"
