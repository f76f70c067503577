//! Hostile plans in a real browser. A sink on loopback stands for every host that a plan names and
//! counts what arrives; all other names, such as those that the browser itself asks for, lead nowhere.
//! Each plan is first shown as a renderer without defences writes it, and there scripts must run and
//! other hosts must be asked.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use glasshouse_plan::{Context, Limits, Profile, ProfileName, parse, render};
use serde_json::{Value, json};

use crate::attacks::undefended;
use crate::headless::{self, Running, browser};
use crate::hostile::{self, Dice};
use crate::skips::skipped;

/// How many plans are shown; all of them with `GLASSHOUSE_SOAK=1`.
fn plans() -> usize {
    if std::env::var_os("GLASSHOUSE_SOAK").is_some() { 500 } else { 100 }
}

/// How long all plans of one kind may take to be shown.
const PATIENCE: Duration = Duration::from_secs(80);

/// Runs in each plan's page before the plan: a script that runs tells the sink, and `press` follows
/// the links that hold code.
const WATCH: &str = r"
const tell = () => { const it = new XMLHttpRequest(); it.open('GET', '/ran', false); it.send(); };
window.alert = window.prompt = window.confirm = window.print = tell;
window.press = () => { for (const it of document.querySelectorAll('[href],[action],[formaction]')) {
    const to = ['href', 'xlink:href', 'action', 'formaction'].map(name => it.getAttribute(name) || '');
    if (!to.some(to => /^[\x00-\x20]*j[\s]*a[\s]*v[\s]*a[\s]*s/i.test(to))) continue;
    it.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}));
} };
";

/// Shows one plan after the other in a frame, presses, and says when all are done.
const WALK: &str = r"
const pause = ms => new Promise(done => setTimeout(done, ms));
let next = 0;
const lane = async () => {
    for (let number = next++; number < COUNT; number = next++) {
        const frame = document.createElement('iframe');
        const loaded = new Promise(done => frame.onload = done);
        frame.src = '/plan/' + number;
        document.body.append(frame);
        await Promise.race([loaded, pause(200)]);
        try { frame.contentWindow.press(); } catch {}
        await pause(20);
        frame.remove();
    }
};
Promise.all(Array.from({length: 8}, lane)).then(() => fetch('/done'));
";

/// What arrived at the sink.
#[derive(Debug, Default)]
struct Arrived {
    scripts: usize,
    /// First line and host of each request to another host; the first bytes of one that is no HTTP.
    outside: Vec<String>,
    shown: usize,
    done: bool,
}

struct Sink {
    address: SocketAddr,
    arrived: Arc<Mutex<Arrived>>,
}

impl Sink {
    fn open(plans: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let arrived = Arc::new(Mutex::new(Arrived::default()));
        let (seen, plans) = (Arc::clone(&arrived), Arc::new(plans));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, plans) = (Arc::clone(&seen), Arc::clone(&plans));
                std::thread::spawn(move || serve(stream, address, &plans, &seen));
            }
        });
        Self { address, arrived }
    }
}

/// The head of a request, or the first bytes of what is none.
fn head(stream: &mut TcpStream) -> Option<Vec<u8>> {
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        head.extend_from_slice(&buffer[..read]);
        let whole = head.windows(4).any(|end| end == b"\r\n\r\n");
        if whole || !head[0].is_ascii_uppercase() || head.len() > 64 * 1024 {
            return Some(head);
        }
    }
}

fn serve(mut stream: TcpStream, own: SocketAddr, plans: &[String], seen: &Mutex<Arrived>) {
    // A browser opens connections ahead of need; without a request they are none.
    let Some(head) = head(&mut stream) else { return };
    let text = String::from_utf8_lossy(&head);
    let first = text.lines().next().unwrap_or_default().to_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap_or_default();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut seen = seen.lock().unwrap();
    let page = if host != own.to_string() {
        seen.outside.push(format!("{:.60} {host}", first.escape_debug()));
        None
    } else if path == "/" {
        let walk = WALK.replace("COUNT", &plans.len().to_string());
        Some(format!("<body><script>{walk}</script>"))
    } else if let Some(number) = path.strip_prefix("/plan/").and_then(|it| it.parse().ok()) {
        seen.shown += 1;
        plans.get::<usize>(number).map(|plan| format!("<script>{WATCH}</script><div>{plan}</div>"))
    } else {
        seen.scripts += usize::from(path == "/ran");
        seen.done |= path == "/done";
        None
    };
    drop(seen);
    let (status, body) = match page {
        Some(body) => ("200 OK", format!("<!doctype html><link rel=icon href=data:,>{body}")),
        None => ("404 Not Found", String::new()),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes());
}

/// Shows the markup of many plans, one page each.
fn browse(program: &str, plans: Vec<String>) -> Arrived {
    let sink = Sink::open(plans);
    let rules = ["*.example", "*.jspm.io"].map(|name| format!("MAP {name} {}, ", sink.address));
    let page = format!("http://{}/", sink.address);
    let running = Running::open(program, &rules.concat(), &[], &page);
    let begun = Instant::now();
    while !sink.arrived.lock().unwrap().done {
        let shown = sink.arrived.lock().unwrap().shown;
        assert!(begun.elapsed() < PATIENCE, "only {shown} plans were shown in time");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(running);
    std::mem::take(&mut *sink.arrived.lock().unwrap())
}

/// An element that loads from a host without a click when nothing stops it, and the address that a
/// template may fill in. Each plan has a host of its own, so that no answer is remembered.
fn lure(dice: &mut Dice, number: u64) -> (Value, String) {
    let leak = format!("http://n{number}.evil.example/leak");
    let url = if dice.below(2) == 0 { "{{state.leak}}" } else { leak.as_str() };
    let css = format!("url({url})");
    let lures = [
        json!({"tag": "img", "props": {"src": url}}),
        json!({"tag": "img", "props": {"srcset": format!("{url} 2x")}}),
        json!({"tag": "p", "props": {"style": format!("background-image: {css}")}}),
        json!({"tag": "p", "props": {"style": {"background": css}}}),
        json!({"tag": "input", "props": {"type": "image", "src": url}}),
        json!({"tag": "table", "props": {"background": url}}),
        json!({"tag": "ul", "props": {"style": format!("list-style: {css}")}}),
        json!({"tag": "video", "props": {"poster": url}}),
        json!({"tag": "link", "props": {"rel": "stylesheet", "href": url}}),
        json!({"tag": "iframe", "props": {"src": url}}),
        json!({"tag": "object", "props": {"data": url}}),
        json!({"tag": "a", "props": {"href": url, "ping": url}}),
    ];
    let mut lure = lures[dice.below(lures.len())].clone();
    lure["type"] = "element".into();
    (lure, leak)
}

/// What a renderer without defences makes of hostile plans, half of them such as ours refuses; and
/// what ours makes of those that it shows.
fn markups() -> (Vec<String>, Vec<String>) {
    let plans = plans();
    let (mut control, mut ours, mut refused) = (Vec::new(), Vec::new(), 0);
    let profile = Profile::named(ProfileName::Balanced);
    for seed in 0.. {
        let mut dice = Dice::new(7_000_000 + seed);
        let (root, mut state) = hostile::plan(&mut dice);
        let (lure, leak) = lure(&mut dice, seed);
        state.insert("leak".into(), leak.into());
        let root = json!({"type": "element", "tag": "div", "children": [root, lure]});
        let text = json!({"specVersion": "runtime-plan/v1", "id": "h", "version": 1,
            "state": {"initial": state}, "root": root});
        let Ok(plan) = parse(&text.to_string(), &Limits::default()) else { continue };
        let html = render(&plan, &profile, &Context::new("s").unwrap());
        refused += usize::from(html.is_err());
        if html.is_ok() && ours.len() < plans / 2 || html.is_err() && refused <= plans / 2 {
            control.push(undefended(&root, &state));
        }
        ours.extend(html.map(|html| html.markup));
        if ours.len() == plans {
            break;
        }
    }
    assert_eq!(control.len(), plans);
    (control, ours)
}

#[test]
fn hostile_plans_do_nothing_in_a_browser() {
    let name = "hostile_plans_do_nothing_in_a_browser";
    let Some(program) = browser() else { return skipped(name, headless::NONE) };
    let (control, ours) = markups();
    let undefended = browse(program, control);
    let (scripts, outside) = (undefended.scripts, undefended.outside.len());
    assert!(
        scripts > plans() / 13 && outside > plans() / 25,
        "the control is too harmless: {scripts}, {outside}"
    );
    let defended = browse(program, ours);
    assert_eq!(defended.shown, plans());
    assert_eq!(defended.scripts, 0, "the control ran {scripts}");
    let first: Vec<_> = defended.outside.iter().take(3).collect();
    assert_eq!(defended.outside.len(), 0, "{first:?}; the control sent {outside}");
}
