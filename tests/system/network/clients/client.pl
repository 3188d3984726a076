# Each step that a Perl program takes with Net::Stomp; prints "ok STEP". Arguments: host, port.
use strict;
use warnings;
use Net::Stomp;

my ( $host, $port ) = @ARGV;
$| = 1;

sub receive {
    my ($stomp) = @_;
    my $frame = $stomp->receive_frame( { timeout => 15 } ) or die "nothing came";
    die $frame->as_string if $frame->command eq 'ERROR';
    return $frame;
}

for my $version ( '1.0', '1.1', '1.2' ) {
    my $stomp = Net::Stomp->new( { hostname => $host, port => $port } );
    my $connected = $stomp->connect( { 'accept-version' => $version, host => 'broker' } );
    die $connected->as_string unless $connected->command eq 'CONNECTED' && $connected->headers->{version} eq $version;
    my $queue = "/queue/perl-$version";
    for my $mode ( 'auto', 'client', 'client-individual' ) {
        $stomp->subscribe( { destination => $queue, id => "s-$mode", ack => $mode } );
        $stomp->send_with_receipt( { destination => $queue, body => "hello $mode", cups => 2 } ) or die 'no receipt';
        my $frame = receive($stomp);
        die $frame->as_string unless $frame->body eq "hello $mode" && $frame->headers->{cups} == 2;
        acknowledge( $stomp, 'ack', $version, $frame, "s-$mode" ) if $mode ne 'auto';
        $stomp->unsubscribe( { destination => $queue, id => "s-$mode" } );
        print "ok $version $mode\n";
    }
    $stomp->send_transactional( { destination => $queue, body => 'done' } ) or die 'not committed';
    $stomp->subscribe( { destination => $queue, id => 'look', browser => 'true' } );
    my ( $first, $end ) = ( receive($stomp), receive($stomp) );
    die $first->as_string unless $first->body eq 'done' && $end->headers->{browser} eq 'end';
    print "ok $version transactions and browser\n";
    if ( $version ne '1.0' ) {
        $stomp->subscribe( { destination => $queue, id => 'n', ack => 'client-individual' } );
        acknowledge( $stomp, 'nack', $version, receive($stomp), 'n' );
        my $again = receive($stomp);
        die $again->as_string unless $again->body eq 'done' && $again->headers->{redelivered} eq 'true';
        acknowledge( $stomp, 'ack', $version, $again, 'n' );
        print "ok $version nack\n";
    }
    $stomp->disconnect;
}

sub acknowledge {
    my ( $stomp, $how, $version, $frame, $id ) = @_;
    my %named =
        $version eq '1.2'
        ? ( id => $frame->headers->{ack} )
        : ( 'message-id' => $frame->headers->{'message-id'}, subscription => $id );
    $stomp->send_frame( Net::Stomp::Frame->new( { command => uc $how, headers => \%named, body => '' } ) );
    return;
}

sub subscriber {
    my $stomp = Net::Stomp->new( { hostname => $host, port => $port } );
    $stomp->connect( { 'accept-version' => '1.2', host => 'broker', 'client-id' => 'perl' } );
    $stomp->subscribe( { destination => '/topic/news', id => 'd', 'durable-subscription-name' => 'all', receipt => 's' } );
    return $stomp;
}

my $stomp = subscriber();
receive($stomp);
$stomp->disconnect;
my $other = Net::Stomp->new( { hostname => $host, port => $port } );
$other->connect( { 'accept-version' => '1.2', host => 'broker' } );
$other->send_with_receipt( { destination => '/topic/news', body => 'while away', persistent => 'true' } ) or die;
$other->disconnect;
$stomp = subscriber();
my %bodies = map { ( $_->body // '' ) => 1 } ( receive($stomp), receive($stomp) );
die join ',', keys %bodies unless $bodies{'while away'};
$stomp->disconnect;
print "ok durable\nall done\n";
