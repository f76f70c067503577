//! A streamed answer through the provider against a bare HTTP client that throws the bytes away.
//!
//! Both ask the same server on the loopback interface. Each line holds medians of interleaved pairs.
//! `cargo bench -p glasshouse-provider`

use std::sync::Arc;
use std::time::{Duration, Instant};

use glasshouse_provider::{Cancel, Dialect, Message, ModelRequest, Provider, Remote};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Takes few samples when this is set: enough to see that it runs.
const SHORT_VARIABLE: &str = "GLASSHOUSE_BENCH_SHORT";
/// Tokens of the long answer; each is an event of its own, as servers send them.
const TOKENS: usize = 10_000;
/// Streams at once for the memory.
const STREAMS: usize = 100;
/// Longest that one streamed token may take above the bare client, in microseconds.
const TOKEN_BOUND_US: f64 = 5.0;
/// How many bare requests one request with one token may take.
const REQUEST_BOUND: f64 = 2.0;
/// Most memory of one open stream, in KiB.
const STREAM_BOUND_KIB: f64 = 256.0;

fn body(tokens: usize) -> String {
    let token = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\
                 \"delta\":{\"content\":\" token\"},\"finish_reason\":null}]}\n\n";
    let mut body = token.repeat(tokens);
    body.push_str(
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    );
    body.push_str("data: [DONE]\n\n");
    body
}

/// Answers every connection with a body, or with half of it and then nothing.
async fn serve(body: String, hangs: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
    let address = listener.local_addr().expect("a bound address");
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let sent = if hangs { body.len() / 2 } else { body.len() };
    let answer: Arc<[u8]> = [head.as_bytes(), &body.as_bytes()[..sent]].concat().into();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            tokio::spawn(async move {
                let _ = client.set_nodelay(true);
                let _ = respond(client, &answer, hangs).await;
            });
        }
    });
    address.to_string()
}

async fn respond(mut client: TcpStream, answer: &[u8], hangs: bool) -> std::io::Result<()> {
    let mut request = vec![0; 64 << 10];
    let _ = client.read(&mut request).await?;
    client.write_all(answer).await?;
    if hangs {
        let _ = client.read(&mut request).await?;
    }
    client.shutdown().await
}

fn request() -> ModelRequest {
    ModelRequest {
        model: "m".to_owned(),
        messages: vec![Message::user("go")],
        max_output_tokens: 64,
        ..ModelRequest::default()
    }
}

fn provider(address: &str) -> Remote {
    Remote::builder(Dialect::Chat, format!("http://{address}/v1"), "m", None)
        .build()
        .expect("a loopback address is a server")
}

async fn through_the_provider(provider: &Remote, request: &ModelRequest) -> Duration {
    let begun = Instant::now();
    let mut deltas = 0_usize;
    let mut sink = |_| deltas += 1;
    let answer = provider.stream(request, &mut sink, &Cancel::new()).await;
    assert!(answer.is_ok() && deltas > 0, "the server answers");
    begun.elapsed()
}

async fn bare(address: &str) -> Duration {
    let begun = Instant::now();
    let stream = TcpStream::connect(address).await.expect("the server is there");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream))
            .await
            .expect("HTTP");
    let task = tokio::spawn(connection);
    let request = hyper::Request::post("/v1/chat/completions").header("host", address);
    let request = request.body(Empty::<Bytes>::new()).expect("a request");
    let mut body = sender.send_request(request).await.expect("an answer").into_body();
    while let Some(frame) = body.frame().await {
        drop(frame);
    }
    task.abort();
    begun.elapsed()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

async fn pairs(address: &str, count: usize) -> (f64, f64) {
    let (provider, request) = (provider(address), request());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..count {
        ours.push(through_the_provider(&provider, &request).await);
        theirs.push(bare(address).await);
    }
    (median(ours), median(theirs))
}

fn resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0.0)
}

/// Memory of one stream that is open in the middle of an answer.
async fn memory() -> f64 {
    let address = serve(body(200), true).await;
    let begun = Arc::new(tokio::sync::Semaphore::new(0));
    let before = resident_kib();
    let tasks: Vec<_> = (0..STREAMS)
        .map(|_| {
            let (provider, begun) = (provider(&address), Arc::clone(&begun));
            tokio::spawn(async move {
                let mut first = true;
                let mut sink = |_| {
                    if std::mem::take(&mut first) {
                        begun.add_permits(1);
                    }
                };
                let _ = provider.stream(&request(), &mut sink, &Cancel::new()).await;
            })
        })
        .collect();
    let all = u32::try_from(STREAMS).expect("a small number");
    let _open = begun.acquire_many(all).await.expect("it is never closed");
    let after = resident_kib();
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    (after - before).max(0.0) / f64::from(all)
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its result")]
fn verdict(what: &str, ratio: f64, bound: f64) {
    let word = if ratio <= bound { "ok" } else { "MISSED" };
    println!("{what}  ratio={ratio:.2} bound={bound} {word}");
}

fn main() {
    // `cargo test --benches` only asks whether it runs.
    let measured = std::env::args().any(|argument| argument == "--bench");
    let short = !measured || std::env::var_os(SHORT_VARIABLE).is_some();
    let (long_runs, short_runs) = if short { (3, 10) } else { (101, 501) };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let long = serve(body(TOKENS), false).await;
        let (ours, theirs) = pairs(&long, long_runs).await;
        let each = (ours - theirs).max(0.0) / TOKENS as f64;
        let what = format!("{TOKENS} tokens: {ours:.0} us, bare {theirs:.0} us; us a token:");
        verdict(&what, each, TOKEN_BOUND_US);
        let one = serve(body(1), false).await;
        let (ours, theirs) = pairs(&one, short_runs).await;
        let what = format!("one request: {ours:.0} us, bare {theirs:.0} us; times bare:");
        verdict(&what, ours / theirs, REQUEST_BOUND);
        let each = memory().await;
        verdict(&format!("{STREAMS} open streams; KiB each, both ends:"), each, STREAM_BOUND_KIB);
    });
}
