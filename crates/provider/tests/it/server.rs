//! A server that does exactly what a test tells it, byte by byte.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// What the server does after it has read a request.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Sends bytes at once.
    Send(Vec<u8>),
    /// Sends bytes again and again, waiting between, until the client goes.
    Trickle(&'static [u8], Duration),
    /// Sends nothing until the client goes.
    Hang,
}

/// A running server for any number of clients at once. It reads one request a connection, acts, and
/// closes.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    state: watch::Receiver<State>,
}

/// How many requests have come and how many clients have gone again.
#[derive(Debug, Default, Clone, Copy)]
struct State {
    asked: usize,
    gone: usize,
}

impl Server {
    pub(crate) async fn start(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (progress, state) = watch::channel(State::default());
        let (progress, acts) = (Arc::new(progress), Arc::new(acts));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let _ = client.set_nodelay(true);
                let (progress, acts, seen) = (progress.clone(), acts.clone(), seen.clone());
                tokio::spawn(async move {
                    let Some(request) = read_request(&mut client).await else { return };
                    seen.lock().unwrap().push(request);
                    progress.send_modify(|state| state.asked += 1);
                    perform(&acts, &mut client).await;
                    progress.send_modify(|state| state.gone += 1);
                });
            }
        });
        Self { address, requests, state }
    }

    /// A server with one whole HTTP answer.
    pub(crate) async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        Self::start(vec![Act::Send(answer.into())]).await
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The requests so far, heads and bodies.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits until a request has come.
    pub(crate) async fn asked(&self) {
        self.asked_times(1).await;
    }

    /// Waits until so many requests have come.
    pub(crate) async fn asked_times(&self, times: usize) {
        self.state.clone().wait_for(|state| state.asked >= times).await.unwrap();
    }

    /// Waits until the server is done with its first client.
    pub(crate) async fn gone(&self) {
        self.state.clone().wait_for(|state| state.gone > 0).await.unwrap();
    }
}

/// Reads a head and as much body as it announces.
pub(crate) async fn read_request(client: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .filter_map(|line| line.split_once(": "))
                .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                .map_or(0, |(_, value)| value.parse::<usize>().unwrap());
            if body.len() >= length {
                return Some(text);
            }
        }
        if client.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

async fn perform(acts: &[Act], client: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    for act in acts {
        match act {
            Act::Send(bytes) => {
                if client.write_all(bytes).await.is_err() {
                    return;
                }
            }
            Act::Trickle(bytes, pause) => loop {
                if client.write_all(bytes).await.is_err() {
                    return;
                }
                if tokio::time::timeout(*pause, client.read_u8()).await.is_ok() {
                    return;
                }
            },
            Act::Hang => {
                let _ = client.read_u8().await;
                return;
            }
        }
    }
    let _ = client.shutdown().await;
}

/// An HTTP answer whose length is announced.
pub(crate) fn http(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

/// The head of a streamed answer.
pub(crate) const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// One HTTP chunk.
pub(crate) fn chunk(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n", body.len())
}

/// A streamed answer, one HTTP chunk for each `size` bytes.
pub(crate) fn streamed(body: &str, size: usize) -> Vec<u8> {
    let mut answer = STREAM_HEAD.as_bytes().to_vec();
    for piece in body.as_bytes().chunks(size) {
        answer.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        answer.extend_from_slice(piece);
        answer.extend_from_slice(b"\r\n");
    }
    answer.extend_from_slice(b"0\r\n\r\n");
    answer
}
