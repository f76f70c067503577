//! Somebody else's server: the proxy `litellm`, which reads our requests in one dialect, asks a server
//! of this test in another, and writes the answer back in the first.

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use glasshouse_provider::{
    Completion, Dialect, Error, Finish, Message, ModelCall, ModelRequest, Remote, Secret,
    TokenUsage, ToolSpec, codes,
};
use serde_json::{Value, json};

use crate::server::{Server, streamed};
use crate::{ask, request, skipped};

const TEST: &str = "litellm_speaks_three_dialects";
const KEY: &str = "sk-litellm-test";
/// A program of this size takes its time to begin on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(120);

/// What the server behind the proxy answers.
const UPSTREAM: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Grüße, \"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"I look.\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_a\",",
    "\"type\":\"function\",\"function\":{\"name\":\"fs--read\",\"arguments\":\"\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,",
    "\"function\":{\"arguments\":\"{\\\"path\\\":\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,",
    "\"function\":{\"arguments\":\"\\\"a b.txt\\\"}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"call_b\",",
    "\"type\":\"function\",\"function\":{\"name\":\"fs--list\",\"arguments\":\"{\\\"path\\\":\\\".\\\"}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":120,\"completion_tokens\":30,",
    "\"total_tokens\":150,\"prompt_tokens_details\":{\"cached_tokens\":100}}}\n\n",
    "data: [DONE]\n\n",
);

struct Proxy {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl Proxy {
    async fn start(venv: PathBuf, upstream: &Server) -> Self {
        let folder =
            std::env::temp_dir().join(format!("glasshouse-litellm-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let answers =
            |mock: &str| json!({"model": "openai/mock", "api_key": "none", "mock_response": mock});
        let relayed = json!({"model": "hosted_vllm/relayed", "api_key": "none", "api_base": upstream.base_url()});
        // JSON is YAML.
        let config = json!({
            "model_list": [
                {"model_name": "relayed", "litellm_params": relayed},
                {"model_name": "words", "litellm_params": answers("Grüße from the mock.")},
                {"model_name": "busy", "litellm_params": answers("litellm.RateLimitError")},
                {"model_name": "small", "litellm_params": answers("litellm.ContextWindowExceededError")},
            ],
            "litellm_settings": {"num_retries": 0},
            "router_settings": {"num_retries": 0, "disable_cooldowns": true},
            "general_settings": {"master_key": KEY},
        });
        std::fs::write(folder.join("config.yaml"), config.to_string()).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = File::create(folder.join("log")).unwrap();
        let child = Command::new(venv.join("bin/python"))
            .args(["-c", "from litellm import run_server; run_server()"])
            .args(["--config", "config.yaml", "--host", "127.0.0.1", "--port", &port.to_string()])
            // It would ask the network for prices and tell of its use.
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .env("LITELLM_TELEMETRY", "False")
            .env("NO_PROXY", "*")
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut proxy = Self { child, port, folder };
        proxy.wait().await;
        proxy
    }

    /// Waits until somebody listens.
    async fn wait(&mut self) {
        let started = Instant::now();
        while tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(self.child.try_wait().unwrap().is_none(), "it ended: {}", log());
            assert!(started.elapsed() < START_LIMIT, "it does not begin: {}", log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn ask(&self, dialect: Dialect, asked: &ModelRequest) -> Result<Completion, Error> {
        let version = if dialect == Dialect::Google { "v1beta" } else { "v1" };
        let url = format!("http://127.0.0.1:{}/{version}", self.port);
        let key = Secret::new(KEY.to_owned()).unwrap();
        let remote = Remote::builder(dialect, url, "unused", key).build().unwrap();
        let (answer, deltas) = ask(&remote, asked).await;
        assert!(answer.is_err() || !deltas.is_empty(), "{dialect:?} showed nothing");
        answer
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn call(id: &str, tool: &str, arguments: &str) -> ModelCall {
    ModelCall { id: id.to_owned(), tool: tool.to_owned(), arguments: arguments.to_owned() }
}

/// A conversation in its middle: two calls were made and answered.
fn conversation() -> ModelRequest {
    let tool = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: "Looks.".to_owned(),
        parameters: json!({"type": "object", "required": ["path"],
            "properties": {"path": {"type": "string"}}}),
    };
    let result = |id: &str, content: &str| Message::ToolResult {
        id: id.to_owned(),
        content: content.to_owned(),
        status: "completed".to_owned(),
    };
    let calls = vec![
        call("old_1", "fs.read", "{\"path\":\"x\"}"),
        call("old_2", "fs.list", "{\"path\":\".\"}"),
    ];
    ModelRequest {
        model: "relayed".to_owned(),
        messages: vec![
            Message::user("look at x"),
            Message::Assistant { text: "First x.".to_owned(), calls, carry: None },
            result("old_1", "content of x"),
            result("old_2", "x\ny"),
        ],
        tools: vec![tool("fs.read"), tool("fs.list")],
        ..request("")
    }
}

/// What the proxy made of our request: the same conversation in the words of another dialect.
fn check_understood(dialect: Dialect, sent: &str) {
    let (_, body) = sent.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool"], "{dialect:?}: {body}");
    let calls = messages[2]["tool_calls"].as_array().unwrap();
    for (call, answer) in calls.iter().zip(&messages[3..]) {
        assert_eq!(call["id"], answer["tool_call_id"], "{dialect:?}: {body}");
    }
    assert_eq!(calls[0]["function"]["name"], "fs--read");
    assert!(messages[3].to_string().contains("content of x"), "{dialect:?}: {body}");
    assert_eq!(body["tools"][1]["function"]["name"], "fs--list", "{dialect:?}: {body}");
    let parameters = &body["tools"][0]["function"]["parameters"];
    assert!(parameters["properties"]["path"].is_object(), "{dialect:?}: {body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn litellm_speaks_three_dialects() {
    let Some(venv) = std::env::var_os("GLASSHOUSE_TEST_LITELLM") else {
        return skipped(TEST, "litellm is not installed");
    };
    let upstream = Server::answering(streamed(UPSTREAM, 64)).await;
    let proxy = Proxy::start(PathBuf::from(venv), &upstream).await;
    for dialect in [Dialect::Chat, Dialect::Anthropic, Dialect::Google] {
        let answer = proxy.ask(dialect, &conversation()).await.unwrap();
        assert_eq!(answer.text, "Grüße, I look.", "{dialect:?}");
        assert_eq!(answer.finish, Finish::ToolCalls, "{dialect:?}");
        let made: Vec<_> = answer
            .calls
            .iter()
            .map(|call| {
                let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
                (call.tool.as_str(), arguments)
            })
            .collect();
        let expected = [("fs.read", json!({"path": "a b.txt"})), ("fs.list", json!({"path": "."}))];
        assert_eq!(made, expected, "{dialect:?}");
        assert_ne!(answer.calls[0].id, answer.calls[1].id, "{dialect:?}");
        // It does not tell Google's words for what a cache held.
        let cached = if dialect == Dialect::Google { 0 } else { 100 };
        let usage = TokenUsage {
            input_uncached: 120 - cached,
            cache_read: cached,
            output: 30,
            ..TokenUsage::default()
        };
        assert_eq!(answer.usage, usage, "{dialect:?}");
        check_understood(dialect, upstream.requests().last().unwrap());
        let words = ModelRequest { model: "words".to_owned(), ..request("hi") };
        let answer = proxy.ask(dialect, &words).await.unwrap();
        assert_eq!(answer.text, "Grüße from the mock.", "{dialect:?}");
        assert_eq!(answer.finish, Finish::Stop, "{dialect:?}");
        let check = async |model: &str, code: glasshouse_model::Code| {
            let asked = ModelRequest { model: model.to_owned(), ..request("hi") };
            let error = proxy.ask(dialect, &asked).await.unwrap_err();
            assert!(error.is(code), "{dialect:?} {model}: {error}");
        };
        check("busy", codes::RATE_LIMITED).await;
        check("small", codes::CONTEXT_OVERFLOW).await;
    }
}
