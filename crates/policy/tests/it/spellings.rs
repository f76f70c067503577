//! Connections that are written in other words, and calls that nobody makes.

use glasshouse_model::Effect;
use glasshouse_policy::{CallSketch, Request, decide};
use serde_json::json;

use crate::support::{call, compile, effect};

/// The failure: a denial of an IPv6 address in another spelling denied nothing.
#[test]
fn an_address_has_one_spelling() {
    let v6 = ["2001:db8::1", "2001:DB8:0:0::1", "2001:0db8:0:0:0:0:0:1", "2001:db8::0.0.0.1"];
    let v4 = ["192.0.2.1", "::ffff:192.0.2.1", "::FFFF:c000:201"];
    let others = ["2001:db8::2", "2001:db8:1::1", "192.0.2.2", "::ffff:192.0.2.2", "a.test"];
    let connect = |host: &str| {
        // What a call of the kernel says is taken as it is.
        let mut call = call("{ syscall: net.connect, caller: agent }");
        call.host = Some(host.to_owned());
        call
    };
    for (at, same) in [&v6[..], &v4[..]].into_iter().enumerate() {
        for written in same {
            let all: Vec<&str> = v6.iter().chain(&v4).chain(&others).copied().collect();
            let open = format!(
                "capabilities:\n  - {{ name: a, match: {{ syscall: net.connect, host: {all:?} }}, action: allow }}\n"
            );
            let denied = format!(
                "{open}  - {{ name: d, match: {{ syscall: net.connect, host: '{written}' }}, action: deny }}\n"
            );
            let group = format!("network_whitelist: {{ g: ['{written}'] }}");
            let decided = |text: &str, host: &str| {
                decide(&compile(text).unwrap(), &Request::new(&connect(host), 0)).decision.effect
            };
            for host in same {
                assert_eq!(decided(&denied, host), Effect::Deny, "{written} {host}");
                assert_eq!(decided(&group, host), Effect::Allow, "{written} {host}");
                // The control, and what a person writes.
                assert_eq!(decided(&open, host), Effect::Allow, "{host}");
                let sketch = format!("{{ syscall: net.connect, host: '{host}' }}");
                assert_eq!(effect(&compile(&denied).unwrap(), &sketch), Effect::Deny, "{host}");
            }
            let foreign = if at == 0 { &v4[..] } else { &v6[..] };
            for host in foreign.iter().chain(&others) {
                assert_eq!(decided(&denied, host), Effect::Allow, "{written} {host}");
                assert_eq!(decided(&group, host), Effect::Deny, "{written} {host}");
            }
        }
    }
    for zone in ["fe80::1%eth0", "fe80::1%25eth0"] {
        let text =
            format!("capabilities: [{{ name: d, match: {{ host: '{zone}' }}, action: deny }}]");
        assert_eq!(compile(&text).unwrap_err().code(), "policy_bad_value");
    }
}

/// The failure: a host that is no name passed by `*.example.org`, beside the denial of what it hides.
#[test]
fn a_call_is_one_that_can_be_made() {
    let policy = compile(
        "
capabilities:
  - { name: a, match: { syscall: net.connect, host: '*.example.org', http_path: '/v1/*' }, action: allow }
  - { name: d, match: { syscall: net.connect, host: evil.example.org }, action: deny }
",
    )
    .unwrap();
    let check = |host: &str, path: &str, expected: Option<Effect>| {
        let sketch =
            json!({ "syscall": "net.connect", "host": host, "http_path": path }).to_string();
        let call = CallSketch::from_json(&sketch).and_then(CallSketch::into_call);
        let found = match &call {
            Ok(call) => Some(decide(&policy, &Request::new(call, 0)).decision.effect),
            Err(error) => {
                assert_eq!(error.code(), "call_malformed");
                None
            }
        };
        assert_eq!(found, expected, "{sketch}");
    };
    for host in [
        "x@evil.example.org",
        " evil.example.org",
        "evil.example.org:443",
        "https://evil.example.org",
        "evil.example.org/.example.org",
        "evil.example.org..",
        "*.example.org",
        "",
    ] {
        check(host, "/v1/a", None);
    }
    for path in
        ["/v1/../admin", "/v1/%2e%2e/admin", "/v1/..%2fadmin", "/v1/%252e%252e/x", "/v1/%zz"]
    {
        check("a.example.org", path, None);
    }
    check("a.example.org", "/v1/a", Some(Effect::Allow));
    check("A.Example.ORG.", "/v1/a%20b", Some(Effect::Allow));
    check("EVIL.example.org.", "/v1/a", Some(Effect::Deny));
    // Keys have names: a list in their order is no call.
    for list in ["[\"fs.read\"]", "[\"fs.read\", \"a\"]", "[]", "\"fs.read\"", "null"] {
        let error = CallSketch::from_json(list).unwrap_err();
        assert_eq!(error.code(), "call_malformed", "{list}");
        let rule = "name: r, match: { syscall: fs.read }, action: allow";
        let text = format!("capabilities: [{{ {rule}, examples: {{ match: [{list}] }} }}]");
        assert_eq!(compile(&text).unwrap_err().code(), "policy_bad_value", "{list}");
    }
    assert!(CallSketch::from_json(r#"{"syscall":"fs.read","syscall":"fs.write"}"#).is_err());
    assert!(CallSketch::from_json(r#" {"syscall":"fs.read"}"#).is_ok());
}
