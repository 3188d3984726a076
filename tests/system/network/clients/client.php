<?php
// Each step that a PHP program takes with the extension stomp (which speaks 1.0); prints "ok STEP". Arguments: host, port.

function check($condition, $what) {
    if (!$condition) {
        fwrite(STDERR, "failed: " . print_r($what, true) . "\n");
        exit(1);
    }
}

function receive($stomp) {
    for ($round = 0; $round < 15; $round++) {
        $frame = $stomp->readFrame();
        if ($frame !== false) {
            return $frame;
        }
    }
    check(false, "nothing came: " . $stomp->error());
}

function opened($host, $port, $headers = []) {
    $stomp = new Stomp("tcp://$host:$port", "", "", $headers);
    $stomp->setReadTimeout(1);
    return $stomp;
}

[$_, $host, $port] = $argv;
$stomp = opened($host, $port);
check($stomp->getSessionId() !== false, "no session");
foreach (["auto", "client", "client-individual"] as $mode) {
    $queue = "/queue/php-$mode";
    $stomp->subscribe($queue, ["ack" => $mode]);
    check($stomp->send($queue, "hello $mode", ["cups" => "2", "receipt" => "r-$mode"]), $stomp->error());
    $frame = receive($stomp);
    check($frame->body === "hello $mode" && $frame->headers["cups"] === "2", $frame);
    if ($mode !== "auto") {
        check($stomp->ack($frame), $stomp->error());
    }
    $stomp->unsubscribe($queue);
    echo "ok 1.0 $mode\n";
}
$queue = "/queue/php";
$stomp->begin("t");
$stomp->send($queue, "undone", ["transaction" => "t"]);
$stomp->abort("t");
$stomp->begin("u");
$stomp->send($queue, "done", ["transaction" => "u"]);
$stomp->commit("u");
$stomp->subscribe($queue, ["browser" => "true", "ack" => "auto"]);
$frame = receive($stomp);
check($frame->body === "done", $frame);
$frame = receive($stomp);
check($frame->headers["browser"] === "end", $frame);
echo "ok 1.0 transactions and browser\n";
unset($stomp);

$durable = ["durable-subscription-name" => "all", "ack" => "client"];
$stomp = opened($host, $port, ["client-id" => "php"]);
check($stomp->subscribe("/topic/news", $durable), $stomp->error());
unset($stomp);
$other = opened($host, $port);
check($other->send("/topic/news", "while away", ["persistent" => "true"]), $other->error());
unset($other);
$stomp = opened($host, $port, ["client-id" => "php"]);
$stomp->subscribe("/topic/news", $durable);
$frame = receive($stomp);
check($frame->body === "while away", $frame);
echo "ok durable\nall done\n";
