//! Modules of plans, against a network of our own: what hosts do wrong, and what a lock holds.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use glasshouse_kernel::driver::Outside;
use glasshouse_kernel::plans::{PinOptions, Pinning, Plans, Quota};
use glasshouse_kernel::{Error, Kernel};
use glasshouse_log::Log;
use glasshouse_plan::ProfileName;
use glasshouse_sandbox::egress::{Dialer, Resolver};
use serde_json::{Value, json};

use crate::harness::Place;

/// What a host does with a request.
#[derive(Clone)]
pub(crate) enum Does {
    Serve(&'static str, Vec<u8>),
    Status(u16),
    SendOn(String),
    /// Says nothing for longer than anybody waits.
    Sleep,
    /// Closes in the middle.
    Cut,
}

/// A network of hosts that answers by `host/path`.
#[derive(Clone)]
pub(crate) struct Cdn {
    address: SocketAddr,
    does: Arc<Mutex<HashMap<String, Does>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

pub(crate) const JS: &str = "text/javascript";
/// A host that the profile allows.
pub(crate) const AT: &str = "ga.jspm.io/npm:";

impl Cdn {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let cdn = Self {
            address: listener.local_addr().unwrap(),
            does: Arc::default(),
            asked: Arc::default(),
        };
        let own = cdn.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let own = own.clone();
                std::thread::spawn(move || own.answer(stream));
            }
        });
        cdn
    }

    fn answer(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        let (mut path, mut host) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                break;
            }
            if path.is_empty() {
                path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            }
            if let Some(name) = line.to_ascii_lowercase().strip_prefix("host: ") {
                host = name.trim().to_owned();
            }
        }
        let at = format!("{host}{path}");
        self.asked.lock().unwrap().push(at.clone());
        let does = self.does.lock().unwrap().get(&at).cloned().unwrap_or(Does::Status(404));
        let mut out = reader.into_inner();
        let _ = match does {
            Does::Serve(kind, body) => write!(
                out,
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
                body.len()
            )
            .and_then(|()| out.write_all(&body)),
            Does::Status(status) => {
                write!(out, "HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n")
            }
            Does::SendOn(to) => {
                write!(out, "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
            }
            Does::Sleep => {
                std::thread::sleep(Duration::from_secs(20));
                Ok(())
            }
            Does::Cut => write!(
                out,
                "HTTP/1.1 200 OK\r\nContent-Type: {JS}\r\nContent-Length: 900\r\n\r\nexport default '"
            ),
        };
    }

    pub(crate) fn set(&self, at: &str, does: Does) {
        self.does.lock().unwrap().insert(at.to_owned(), does);
    }

    pub(crate) fn serve(&self, at: &str, code: &str) {
        self.set(at, Does::Serve(JS, code.as_bytes().to_vec()));
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// Pins a plan in an installation whose network this is.
    pub(crate) fn pin(
        &self,
        place: &Place,
        plan: &Value,
        options: &PinOptions,
    ) -> Result<Pinning, Error> {
        self.pin_as(place, plan, options, ProfileName::Trusted)
    }

    fn pin_as(
        &self,
        place: &Place,
        plan: &Value,
        options: &PinOptions,
        profile: ProfileName,
    ) -> Result<Pinning, Error> {
        self.plans(place).0.pin(&plan.to_string(), profile, options)
    }

    /// The plans of an installation whose network this is, and their log.
    pub(crate) fn plans(&self, place: &Place) -> (Plans, Log) {
        let outside = Outside {
            resolver: Arc::new(self.clone()),
            dialer: Arc::new(self.clone()),
            roots_pem: Vec::new(),
        };
        let program = PathBuf::from(env!("CARGO_BIN_EXE_glasshouse"));
        let kernel = Kernel::open(&place.home(), &program).unwrap().with_outside(outside);
        let plans = kernel.plans(&place.path("."), Quota::default()).unwrap();
        (plans, kernel.log().clone())
    }
}

impl Resolver for Cdn {
    fn resolve(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        let address = if name.starts_with("inside.") { "10.0.0.7" } else { "93.184.216.34" };
        Ok(vec![address.parse().unwrap()])
    }
}

impl Dialer for Cdn {
    fn dial(&self, _: SocketAddr) -> std::io::Result<TcpStream> {
        TcpStream::connect(self.address)
    }
}

fn plan(code: &str) -> Value {
    json!({
        "specVersion": "runtime-plan/v1", "id": "modules", "version": 1,
        "capabilities": {"domWrite": true},
        "root": {"type": "text", "value": "own root"},
        "source": {"code": code, "language": "tsx", "runtime": "renderify"},
    })
}

/// A plan that shows what one module exports.
fn one(module: &str) -> Value {
    plan(&format!("import it from 'http://{AT}{module}'; export default () => <p>{{it}}</p>"))
}

/// What a plan renders as, by the command and without any network.
fn rendered(place: &Place, text: &str) -> (Option<i32>, String, String) {
    let file = place.path("pinned.json");
    std::fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let ran = place.run(&["ui", "render-plan", &file, "--profile", "trusted"]);
    (ran.status, ran.stdout.trim_end().to_owned(), ran.stderr)
}

#[test]
fn e2e_a_whole_graph_is_pinned_and_runs_without_a_network() {
    let (place, cdn) = (Place::new(), Cdn::start());
    cdn.serve(
        &format!("{AT}lib@1.0.0/index.js"),
        "import { b } from './parts/b.js'; import css from './style.css'; import data from './data.json' with { type: 'json' };
         import text from './note.txt'; import picture from './logo.png'; import { h } from 'preact';
         export const name = 'lib'; export default [b(), css.length, data.list[1], text, picture, typeof h].join(' ');",
    );
    // Two modules that import each other.
    cdn.serve(
        &format!("{AT}lib@1.0.0/parts/b.js"),
        "import { name } from '../index.js'; export const b = () => 'b of ' + (typeof name);",
    );
    cdn.set(&format!("{AT}lib@1.0.0/style.css"), Does::Serve("text/css", b"p{}".to_vec()));
    cdn.set(
        &format!("{AT}lib@1.0.0/data.json"),
        Does::Serve("application/json", br#"{"list":[1,"two"]}"#.to_vec()),
    );
    cdn.set(&format!("{AT}lib@1.0.0/note.txt"), Does::Serve("text/plain", b"a note".to_vec()));
    cdn.set(&format!("{AT}lib@1.0.0"), Does::SendOn("./npm:lib@1.0.0/index.js".to_owned()));
    let unpinned = one("lib@1.0.0");
    let (status, markup, said) = rendered(&place, &unpinned.to_string());
    assert_eq!((status, markup.as_str()), (Some(3), ""), "{said}");
    assert!(said.contains("script_module_unlocked"), "{said}");

    let pinned = cdn.pin(&place, &unpinned, &PinOptions::default()).unwrap();
    let kinds: Vec<&str> = pinned.modules.iter().map(|module| module.kind).collect();
    // The first one is asked for by two addresses, until the manifest makes them one.
    assert_eq!(kinds, ["script", "script", "css", "json", "text", "asset", "script"]);
    assert_eq!(pinned.modules[1].chain.len(), 3, "{:?}", pinned.modules[1].chain);
    assert!(!cdn.asked().iter().any(|asked| asked.contains("logo")), "a picture is only named");
    let (status, markup, said) = rendered(&place, &pinned.text);
    let want = format!("<p>b of string 3 two a note http://{AT}lib@1.0.0/logo.png function</p>");
    assert_eq!((status, markup), (Some(0), want), "{said}");
    // What is pinned is pinned: again, without a network, the same bytes come out.
    let offline = PinOptions { offline: true, ..PinOptions::default() };
    let again = cdn.pin(&place, &serde_json::from_str(&pinned.text).unwrap(), &offline).unwrap();
    assert_eq!((again.text, again.fetched), (pinned.text, 0));
    assert_eq!(cdn.asked(), Vec::<String>::new());
    place.run(&["audit", "verify", "--json"]).expect_status(0);
}

#[test]
fn h1_a_host_that_fails_gives_no_module_and_another_may() {
    let good = "export default 'from the second'";
    for (name, does) in [
        ("502", Does::Status(502)),
        ("404", Does::Status(404)),
        ("slow", Does::Sleep),
        ("page", Does::Serve("text/html", b"<!doctype html><p>Service unavailable".to_vec())),
        ("garbage", Does::Serve(JS, b"<!doctype html><p>not a module".to_vec())),
        ("binary", Does::Serve(JS, vec![0xff, 0xfe, 0x00])),
        ("cut", Does::Cut),
        ("cut script", Does::Serve(JS, b"export default (".to_vec())),
    ] {
        let (place, cdn) = (Place::new(), Cdn::start());
        cdn.set(&format!("{AT}x@1.0.0/x.js"), does);
        let begun = std::time::Instant::now();
        let alone = cdn.pin(&place, &one("x@1.0.0/x.js"), &PinOptions::default());
        let error = alone.unwrap_err();
        assert_eq!(error.code(), "script_module_unavailable", "{name}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(19), "{name}: {:?}", begun.elapsed());
        let second = "cdn.jspm.io/npm:x@1.0.0/x.js";
        cdn.serve(second, good);
        let fallbacks = vec!["http://cdn.jspm.io".to_owned()];
        let options = PinOptions { fallbacks, ..PinOptions::default() };
        let pinned = cdn.pin(&place, &one("x@1.0.0/x.js"), &options).unwrap();
        assert_eq!(pinned.modules[0].address, format!("http://{second}"), "{name}");
        let (status, markup, said) = rendered(&place, &pinned.text);
        assert_eq!(
            (status, markup.as_str()),
            (Some(0), "<p>from the second</p>"),
            "{name}: {said}"
        );
    }
}

#[test]
fn h2_changed_bytes_are_refused_and_the_old_ones_still_run() {
    let (place, cdn) = (Place::new(), Cdn::start());
    let at = format!("{AT}x@1.0.0/x.js");
    cdn.serve(&at, "export default 'first'");
    let pinned = cdn.pin(&place, &one("x@1.0.0/x.js"), &PinOptions::default()).unwrap();
    let locked: Value = serde_json::from_str(&pinned.text).unwrap();
    cdn.serve(&at, "export default 'other'");
    let (status, markup, said) = rendered(&place, &pinned.text);
    assert_eq!((status, markup.as_str()), (Some(0), "<p>first</p>"), "{said}");

    // Elsewhere, where nothing is cached.
    let elsewhere = Place::new();
    let (status, markup, said) = rendered(&elsewhere, &pinned.text);
    assert_eq!((status, markup.as_str()), (Some(3), ""), "{said}");
    assert!(said.contains("script_module_unavailable"), "{said}");
    let error = cdn.pin(&elsewhere, &locked, &PinOptions::default()).unwrap_err();
    let told = error.to_string();
    assert_eq!(error.code(), "script_module_changed", "{told}");
    assert_eq!(told.matches("sha384-").count(), 2, "{told}");
    let (status, ..) = rendered(&elsewhere, &pinned.text);
    assert_eq!(status, Some(3), "what was refused is not kept");
    // The control: who asks for it gets the new bytes.
    let refresh = PinOptions { refresh: true, ..PinOptions::default() };
    let anew = cdn.pin(&elsewhere, &locked, &refresh).unwrap();
    assert_eq!(rendered(&elsewhere, &anew.text).1, "<p>other</p>");
}

#[test]
fn h4_two_runtimes_are_refused_with_the_chains_that_bring_them() {
    for (name, modules, want) in [
        (
            "two of React",
            vec![
                ("lib@1.0.0/i.js", "import './a.js'; import './b.js'; export default 1"),
                ("lib@1.0.0/a.js", "import '/npm:react@19.2.2/index.js'"),
                ("lib@1.0.0/b.js", "import '/npm:react@19.2.1/jsx-runtime.js'"),
            ],
            &["react 19.2.1 by", "react 19.2.2 by", "b.js > ", "a.js > "][..],
        ),
        (
            "an alias that is not used",
            vec![(
                "lib@1.0.0/i.js",
                "import '/npm:preact@10.19.0/p.js'; import 'react'; export default 1",
            )],
            &["preact 10.19.0 by the plan > ", "preact 10.28.3 by"][..],
        ),
        (
            "one",
            vec![("lib@1.0.0/i.js", "import { h } from 'react'; export default typeof h")],
            &[][..],
        ),
    ] {
        let (place, cdn) = (Place::new(), Cdn::start());
        for path in ["react@19.2.2/index.js", "react@19.2.1/jsx-runtime.js", "preact@10.19.0/p.js"]
        {
            cdn.serve(&format!("{AT}{path}"), "export default 0");
        }
        for (path, code) in modules {
            cdn.serve(&format!("{AT}{path}"), code);
        }
        let pinned = cdn.pin(&place, &one("lib@1.0.0/i.js"), &PinOptions::default());
        assert_eq!(pinned.is_ok(), want.is_empty(), "{name}");
        match pinned {
            Ok(pinned) => {
                assert_eq!(rendered(&place, &pinned.text).0, Some(0), "{name}");
            }
            Err(error) => {
                let told = error.to_string();
                assert_eq!(error.code(), "script_module_duplicate", "{name}: {told}");
                assert!(want.iter().all(|part| told.contains(part)), "{name}: {told}");
            }
        }
    }
}

/// A host that the profile lists sends on; where it leads is decided again, by name and by address.
#[test]
fn a_redirect_leads_to_no_private_place() {
    for (name, to, profile, works) in [
        ("public", "http://cdn.jspm.io/y.js".to_owned(), ProfileName::Trusted, true),
        ("another host", "http://other.test/y.js".to_owned(), ProfileName::Trusted, false),
        // The profile allows any host here, so that only the proxy is in the way.
        ("the control", "http://other.test/y.js".to_owned(), ProfileName::Relaxed, true),
        ("private name", "http://inside.test/y.js".to_owned(), ProfileName::Relaxed, false),
        ("loopback", "http://127.0.0.1/y.js".to_owned(), ProfileName::Relaxed, false),
        ("metadata", "http://169.254.169.254/y.js".to_owned(), ProfileName::Relaxed, false),
        ("file", "file:///etc/passwd".to_owned(), ProfileName::Relaxed, false),
        ("itself", format!("http://{AT}x@1.0.0/x.js"), ProfileName::Trusted, false),
    ] {
        let (place, cdn) = (Place::new(), Cdn::start());
        for host in ["cdn.jspm.io", "other.test", "inside.test", "127.0.0.1", "169.254.169.254"] {
            cdn.serve(&format!("{host}/y.js"), "export default 1");
        }
        cdn.set(&format!("{AT}x@1.0.0/x.js"), Does::SendOn(to));
        let plan = one("x@1.0.0/x.js");
        let pinned = cdn.pin_as(&place, &plan, &PinOptions::default(), profile);
        assert_eq!(pinned.is_ok(), works, "{name}: {pinned:?}");
        let asked = cdn.asked();
        if !works {
            assert_eq!(pinned.unwrap_err().code(), "script_module_unavailable", "{name}");
            assert!(!asked.iter().any(|at| at.ends_with("/y.js")), "{name}: {asked:?}");
        }
        assert!(asked.len() <= 8, "{name}: {asked:?}");
    }
}

#[test]
fn modules_are_bounded() {
    let many: String = (0..60).map(|n| format!("import './m{n}.js';")).collect();
    for (name, first, want) in [
        ("count", many.as_str(), "script_module_limit"),
        ("depth", "import './deep0.js'", "script_module_limit"),
        ("size", "import './large.js'", "script_module_unavailable"),
        ("scheme", "import 'node:fs'", "script_module_unavailable"),
        ("nothing", "export default 1", ""),
    ] {
        let (place, cdn) = (Place::new(), Cdn::start());
        cdn.serve(&format!("{AT}x@1.0.0/x.js"), first);
        for n in 0..60 {
            cdn.serve(&format!("{AT}x@1.0.0/m{n}.js"), "");
            cdn.serve(&format!("{AT}x@1.0.0/deep{n}.js"), &format!("import './deep{}.js'", n + 1));
        }
        let large = vec![b' '; (2 << 20) + 1];
        cdn.set(&format!("{AT}x@1.0.0/large.js"), Does::Serve(JS, large));
        let plan = plan(&format!("import 'http://{AT}x@1.0.0/x.js'; export default () => 'x'"));
        let code = cdn.pin(&place, &plan, &PinOptions::default()).err();
        assert_eq!(code.map_or("", |error| error.code()), want, "{name}");
    }
}

/// Bytes of all modules together are bounded, also where each one of them is within its own bound.
#[test]
fn the_bytes_of_a_whole_graph_are_bounded() {
    for (count, want) in [(15, ""), (17, "script_module_limit")] {
        let (place, cdn) = (Place::new(), Cdn::start());
        let names: String = (0..count).map(|n| format!("import './t{n}.txt';")).collect();
        cdn.serve(&format!("{AT}x@1.0.0/x.js"), &format!("{names} export default 1"));
        for n in 0..count {
            // One differs from the next, so that each is one of its own.
            let text = format!("{n:04}{}", " ".repeat((1 << 20) - 64));
            cdn.set(&format!("{AT}x@1.0.0/t{n}.txt"), Does::Serve("text/plain", text.into_bytes()));
        }
        let pinned = cdn.pin(&place, &one("x@1.0.0/x.js"), &PinOptions::default());
        let Err(error) = pinned else {
            assert_eq!(want, "", "{count} were pinned");
            continue;
        };
        assert_eq!(error.code(), want, "{count}: {error}");
        let told = error.report();
        assert_eq!(
            (&told.context["limit"], &told.context["max"]),
            (&json!("bytes"), &json!(16 << 20))
        );
    }
}

/// A module without a version is pinned with the bytes that come, and with the version where its host names one.
#[test]
fn a_module_without_a_version_is_refused_until_it_is_pinned() {
    let (place, cdn) = (Place::new(), Cdn::start());
    let unlocked = plan("import it from 'npm:lib'; export default () => <p>{it}</p>");
    let (status, markup, said) = rendered(&place, &unlocked.to_string());
    assert_eq!((status, markup.as_str()), (Some(3), ""), "{said}");
    assert!(said.contains("plan_manifest_missing"), "{said}");
    let mut by_place = unlocked.clone();
    by_place["moduleManifest"] = json!({"npm:lib": {"resolvedUrl": format!("http://{AT}lib")}});
    let (status, _, said) = rendered(&place, &by_place.to_string());
    assert!(status == Some(3) && said.contains("script_module_unlocked"), "{said}");
    // The host names the version.
    let whole = format!("{AT}lib@2.1.0/index.js");
    cdn.set(&format!("{AT}lib"), Does::SendOn(format!("http://{whole}")));
    cdn.serve(&whole, "export default '2.1.0'");
    let pinned = cdn.pin(&place, &by_place, &PinOptions::default()).unwrap();
    let manifest = serde_json::from_str::<Value>(&pinned.text).unwrap()["moduleManifest"].clone();
    assert_eq!(manifest["npm:lib"]["resolvedUrl"], format!("http://{whole}"), "{manifest}");
    assert!(manifest["npm:lib"]["integrity"].as_str().unwrap().starts_with("sha384-"));
    assert_eq!(rendered(&place, &pinned.text).1, "<p>2.1.0</p>");
    // The host names none: the bytes are locked, and others are refused.
    cdn.serve(&format!("{AT}lib"), "export default 'today'");
    let pinned = cdn.pin(&place, &by_place, &PinOptions::default()).unwrap();
    cdn.serve(&format!("{AT}lib"), "export default 'tomorrow'");
    assert_eq!(rendered(&place, &pinned.text).1, "<p>today</p>");
    let locked = serde_json::from_str(&pinned.text).unwrap();
    let error = cdn.pin(&Place::new(), &locked, &PinOptions::default()).unwrap_err();
    assert_eq!(error.code(), "script_module_changed", "{error}");
}

/// A host's import map places names that the plan does not place, and what it says is in the pinned plan.
#[test]
fn an_import_map_places_what_the_plan_does_not() {
    let (place, cdn) = (Place::new(), Cdn::start());
    let (mapped, own) =
        (format!("http://{AT}lib@3.0.0/i.js"), format!("http://{AT}lib@1.0.0/i.js"));
    cdn.serve(&format!("{AT}lib@3.0.0/i.js"), "export default 'of the map'");
    cdn.serve(&format!("{AT}lib@1.0.0/i.js"), "export default 'of the plan'");
    let unlocked = plan("import it from 'lib'; export default () => <p>{it}</p>");
    let mut placed = unlocked.clone();
    placed["moduleManifest"] = json!({"lib": {"resolvedUrl": own}});
    let map = [("lib".to_owned(), mapped), ("unused".to_owned(), "http://x.test/y.js".to_owned())];
    let options = PinOptions { map: map.into(), ..PinOptions::default() };
    for (name, plan, want) in
        [("the map", &unlocked, "of the map"), ("the plan", &placed, "of the plan")]
    {
        let pinned = cdn.pin(&place, plan, &options).unwrap();
        assert!(!pinned.text.contains("unused"), "{name}: {}", pinned.text);
        assert_eq!(rendered(&place, &pinned.text).1, format!("<p>{want}</p>"), "{name}");
    }
    // The profile judges what a map says as what a plan says.
    let elsewhere = [("lib".to_owned(), "http://other.test/y.js".to_owned())];
    let options = PinOptions { map: elsewhere.into(), ..PinOptions::default() };
    let error = cdn.pin(&place, &unlocked, &options).unwrap_err();
    assert_eq!(error.code(), "plan_refused", "{error}");
    // By the command, from a file.
    let (file, map) = (place.path("mapped.json"), place.path("map.json"));
    std::fs::write(&file, unlocked.to_string()).unwrap();
    let (file, name) = (file.display().to_string(), map.display().to_string());
    let preact = "https://ga.jspm.io/npm:preact@10.28.3/dist/preact.module.js";
    for (text, status) in [
        (json!({"imports": {"lib": preact}}).to_string(), 0),
        (json!({"imports": {"lib": preact}, "scopes": {}}).to_string(), 2),
        (json!({"imports": {"lib/": preact}}).to_string(), 2),
        (json!({"imports": {"lib": null}}).to_string(), 2),
        (json!({"imports": []}).to_string(), 2),
        (json!({"imports": "x"}).to_string(), 2),
        ("{}".to_owned(), 2),
        ("\"x\"".to_owned(), 2),
        ("[]".to_owned(), 2),
        ("{".to_owned(), 2),
    ] {
        std::fs::write(&map, &text).unwrap();
        let ran = place.run(&["ui", "pin", &file, "--offline", "--import-map", &name]);
        let ran = ran.expect_status(status);
        assert_eq!(ran.stdout.contains(preact), status == 0, "{text}: {ran:?}");
        assert_eq!(ran.stderr.contains("is no import map"), status == 2, "{text}: {ran:?}");
    }
    // A host that cannot be asked is said to be none, and not passed over.
    std::fs::write(&map, json!({"imports": {"lib": preact}}).to_string()).unwrap();
    for (host, status) in
        [("https://esm.sh", 0), ("", 2), ("esm.sh", 2), ("javascript:1", 2), ("https://", 2)]
    {
        let ran = place.run(&[
            "ui",
            "pin",
            &file,
            "--offline",
            "--import-map",
            &name,
            "--fallback",
            host,
        ]);
        let ran = ran.expect_status(status);
        assert_eq!(
            ran.stderr.contains("no host that can be asked"),
            status == 2,
            "{host}: {ran:?}"
        );
    }
}

/// A probe says what a plan would run with; a module that would never end shows that nothing ran.
#[test]
fn a_probe_loads_what_is_pinned_and_runs_nothing() {
    let (place, cdn) = (Place::new(), Cdn::start());
    cdn.serve(&format!("{AT}x@1.0.0/x.js"), "for (;;) {} export default 1");
    let pinned = cdn.pin(&place, &one("x@1.0.0/x.js"), &PinOptions::default()).unwrap();
    let (status, markup, said) = rendered(&place, &pinned.text);
    assert_eq!((status, markup.as_str()), (Some(0), "own root"), "the control: {said}");
    assert!(said.contains("script_limit"), "the control: {said}");
    let file = place.path("pinned.json").display().to_string();
    let probe = ["ui", "probe-plan", &file, "--profile", "trusted", "--json"];
    let probed = place.run(&probe).expect_status(0).last();
    assert_eq!(probed["ok"], true, "{probed}");
    assert_eq!(probed["modules"][0]["address"], format!("http://{AT}x@1.0.0/x.js"), "{probed}");
    assert_eq!(probed["dependencies"][0]["usage"], "source", "{probed}");
    std::fs::write(&file, one("x@1.0.0/x.js").to_string()).unwrap();
    let probed = place.run(&probe).expect_status(3).last();
    assert_eq!(probed["issues"][0]["code"], "script_module_unlocked", "{probed}");
}

#[test]
fn what_the_policy_does_not_allow_is_not_fetched() {
    let (place, cdn) = (Place::new(), Cdn::start());
    cdn.serve(&format!("{AT}x@1.0.0/x.js"), "export default 1");
    let shipped = place.run(&["policy", "show", "--shipped"]).stdout;
    let without: String =
        shipped.replace("syscall: ui.import, caller: user", "syscall: ui.import, caller: kernel");
    assert_ne!(without, shipped);
    std::fs::create_dir_all(place.path(".glasshouse")).unwrap();
    std::fs::write(place.path(".glasshouse/policy.yaml"), without).unwrap();
    let error = cdn.pin(&place, &one("x@1.0.0/x.js"), &PinOptions::default()).unwrap_err();
    assert!(error.to_string().contains("the policy does not allow it"), "{error}");
    assert_eq!(cdn.asked(), Vec::<String>::new());
}

/// Whoever stops a pinning gets nothing half-written, and keeps what was fetched.
#[test]
fn a_pinning_that_is_stopped_ends_at_once() {
    let (place, cdn) = (Place::new(), Cdn::start());
    cdn.serve(&format!("{AT}x@1.0.0/x.js"), "import './slow.js'; export default 1");
    cdn.set(&format!("{AT}x@1.0.0/slow.js"), Does::Sleep);
    let cancel = glasshouse_kernel::Cancel::new().unwrap();
    let mut plans = cdn.plans(&place).0.until(&cancel);
    let stop = cancel.clone();
    let asked = Arc::clone(&cdn.asked);
    let stopped = std::thread::spawn(move || {
        while !asked.lock().unwrap().iter().any(|at| at.ends_with("slow.js")) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let at = std::time::Instant::now();
        stop.cancel();
        at
    });
    let text = one("x@1.0.0/x.js").to_string();
    let error = plans.pin(&text, ProfileName::Trusted, &PinOptions::default()).unwrap_err();
    let took = stopped.join().unwrap().elapsed();
    assert_eq!(error.code(), "cancelled", "{error}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    let kept: Vec<String> = std::fs::read_dir(place.home().join("cache/modules"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(!kept[0].starts_with('.'), "{kept:?}");
}

#[test]
fn e2e_a_pinned_plan_takes_the_place_of_its_file_whole_or_not_at_all() {
    let (place, cdn) = (Place::new(), Cdn::start());
    cdn.serve(&format!("{AT}x@1.0.0/x.js"), "export default 1");
    cdn.pin(&place, &one("x@1.0.0/x.js"), &PinOptions::default()).unwrap();
    let file = place.path("plan.json");
    let pin = |plan: &Value| {
        std::fs::write(&file, plan.to_string()).unwrap();
        let name = file.display().to_string();
        place.run(&["ui", "pin", &name, "--offline", "--profile", "trusted", "--out", &name])
    };
    let beside = || std::fs::read_dir(place.path(".")).unwrap().count();
    let before = one("x@1.0.0/x.js");
    let ran = pin(&before);
    // It is not locked yet, so nothing of it is in the cache by a digest that is known.
    assert_ne!(ran.status, Some(0), "{ran:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before.to_string());
    let files = beside();
    let locked = cdn.pin(&place, &before, &PinOptions::default()).unwrap().text;
    let ran = pin(&serde_json::from_str(&locked).unwrap());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim_end(), locked);
    assert_eq!(beside(), files, "nothing is left beside it");
}
