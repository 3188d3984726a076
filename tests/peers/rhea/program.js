// `program.js URL ACTION …`: what a user of rhea does. The actions are those of ../proton/program.py but for transactions, which rhea
// has not; each prints a line of JSON for a message.

'use strict';

const rhea = require('rhea');

const types = rhea.types;
const PROPERTIES = {
    truth: true,
    byte: types.wrap_byte(-128),
    short: types.wrap_short(-32768),
    int: types.wrap_int(-(2 ** 31)),
    long: types.wrap_long(-(2 ** 53)),
    float: types.wrap_float(0.5),
    double: types.wrap_double(1e300),
    text: 'grün',
    nothing: null,
    ubyte: types.wrap_ubyte(255),
    ushort: types.wrap_ushort(65535),
    uint: types.wrap_uint(2 ** 32 - 1),
    ulong: types.wrap_ulong(2 ** 53),
    when: types.wrap_timestamp(1700000000000),
    uuid: types.wrap_uuid(Buffer.from('12345678123456781234567812345678', 'hex')),
    symbol: types.wrap_symbol('sign'),
    bytes: types.wrap_binary(Buffer.from([0, 255])),
};

function say(line) {
    process.stdout.write(JSON.stringify(line) + '\n');
}

function node(address) {
    const colon = address.indexOf(':');
    return colon < 0 ? { address } : { address: address.slice(colon + 1), capabilities: [address.slice(0, colon)] };
}

function numbered(number) {
    return { body: String(number), durable: true, application_properties: { number: types.wrap_int(number) } };
}

function settle(delivery, outcome) {
    switch (outcome) {
        case 'accepted':
            return delivery.accept();
        case 'rejected':
            return delivery.reject({ condition: 'amqp:not-allowed', description: 'no order' });
        case 'released':
            return delivery.release();
        case 'failed':
            return delivery.modified({ delivery_failed: true });
        case 'undeliverable':
            return delivery.modified({ delivery_failed: true, undeliverable_here: true });
        default:
            return undefined; // held
    }
}

function brief(message) {
    const number = message.application_properties ? message.application_properties.number : null;
    say({ body: message.body, count: message.delivery_count || 0, number });
}

// Sends the messages that `next` gives, one after the other.
function send(connection, address, next) {
    const sender = connection.open_sender({ target: node(address) });
    let body = null;
    function one() {
        const message = next();
        if (message === null) {
            connection.close();
        } else {
            body = message.body;
            sender.send(message);
        }
    }
    sender.once('sendable', one);
    for (const outcome of ['accepted', 'rejected', 'released', 'modified']) {
        sender.on(outcome, () => {
            say({ sent: body, outcome });
            one();
        });
    }
}

function receive(connection, address, number, how, filter, print = brief) {
    const source = node(address);
    if (filter) {
        source.filter = filter;
    }
    const receiver = connection.open_receiver({ source, credit_window: 0, autoaccept: false, autosettle: false });
    let left = number;
    receiver.on('receiver_open', () => receiver.add_credit(number));
    receiver.on('message', (context) => {
        print(context.message);
        settle(context.delivery, how);
        left -= 1;
        if (left === 0 && how !== 'held') {
            connection.close();
        }
    });
    return receiver;
}

function drain(connection, address) {
    const receiver = connection.open_receiver({ source: node(address), credit_window: 0, autoaccept: true });
    receiver.on('receiver_open', () => {
        receiver.drain = true;
        receiver.add_credit(100000);
    });
    receiver.on('message', (context) => brief(context.message));
    receiver.on('receiver_drained', () => connection.close());
}

function complete() {
    return {
        body: 'grün',
        durable: true,
        priority: 7,
        ttl: 3600000,
        message_id: 'ID:one',
        user_id: types.wrap_binary(Buffer.from('anonymous')),
        subject: 'order',
        reply_to: 'answers',
        correlation_id: 'first',
        content_type: 'text/plain',
        creation_time: 1700000000000,
        group_id: 'group',
        group_sequence: 7,
        reply_to_group_id: 'answers-group',
        application_properties: PROPERTIES,
    };
}

function shown(value) {
    return Buffer.isBuffer(value) ? value.toString('hex') : value instanceof Date ? value.getTime() : value;
}

function show(message) {
    const properties = message.application_properties;
    say({
        body: message.body,
        durable: message.durable,
        priority: message.priority,
        ttl: message.ttl,
        id: message.message_id,
        user: message.user_id.toString(),
        subject: message.subject,
        reply_to: message.reply_to,
        correlation: message.correlation_id,
        content_type: message.content_type,
        created: shown(message.creation_time),
        group: message.group_id,
        sequence: message.group_sequence,
        reply_group: message.reply_to_group_id,
        properties: Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, shown(value)])),
    });
}

function request(connection, address, body) {
    const source = { dynamic: true, capabilities: ['temporary-queue'] };
    const answers = connection.open_receiver({ source, credit_window: 1 });
    answers.on('receiver_open', () => {
        const sender = connection.open_sender({ target: node(address) });
        sender.once('sendable', () => sender.send({ body, reply_to: answers.source.address, correlation_id: 'asked' }));
    });
    answers.on('message', (context) => {
        say({ reply: context.message.body, correlation: context.message.correlation_id });
        connection.close();
    });
}

function serve(connection, address, number) {
    const relay = connection.open_sender({ target: {} });
    let left = number;
    relay.once('sender_open', () => {
        const receiver = connection.open_receiver({ source: node(address), credit_window: number });
        receiver.on('receiver_open', () => say({ serving: address }));
        receiver.on('message', ({ message }) => {
            relay.send({ to: message.reply_to, body: `re: ${message.body}`, correlation_id: message.correlation_id });
        });
    });
    relay.on('accepted', () => {
        say({ replied: true });
        left -= 1;
        if (left === 0) {
            connection.close();
        }
    });
}

function upTo(count, make) {
    let number = 0;
    return () => (number < count ? make(number++) : null);
}

const [url, action, ...rest] = process.argv.slice(2);
const { hostname, port } = new URL(url);
const container = rhea.create_container();
const connection = container.connect({ host: hostname, port: Number(port), username: 'anonymous', reconnect: false });
for (const ended of ['connection_error', 'session_error', 'sender_error', 'receiver_error']) {
    container.on(ended, (context) => {
        const of = context.receiver || context.sender || context.session || context.connection;
        say({ error: String(of.error && of.error.condition), description: String(of.error && of.error.description) });
        connection.close();
    });
}
container.on('disconnected', (context) => {
    if (context.error) {
        say({ error: 'disconnected', description: String(context.error) });
    }
});
const ACTIONS = {
    send: (address, count) => send(connection, address, upTo(Number(count), numbered)),
    receive: (address, count, outcome) => receive(connection, address, Number(count), outcome),
    hold: (address, count) => receive(connection, address, Number(count), 'held'),
    drain: (address) => drain(connection, address),
    select: (address, count, text) => receive(connection, address, Number(count), 'accepted', rhea.filter.selector(text)),
    types: (address) => send(connection, address, upTo(1, complete)),
    show: (address) => receive(connection, address, 1, 'accepted', null, show),
    request: (address, body) => request(connection, address, body),
    serve: (address, count) => serve(connection, address, Number(count)),
    flood: (address) => send(connection, address, upTo(Infinity, numbered)),
};
ACTIONS[action](...rest);
