//! `provider test`: tries a model server for real, and tells what works.

use std::time::{Duration, Instant};

use glasshouse_kernel::driver::Questions;
use glasshouse_model::Exit;
use glasshouse_provider::codes as provider_codes;
use glasshouse_provider::{
    Cancel, Completion, Delta, Finish, Message, ModelRequest, OutputFormat, ToolSpec, excerpt_of,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{ModelOptions, ProviderCommand};
use crate::error::Error;
use crate::home;
use crate::models::{self, Connected};
use crate::output;

/// Longest that one try may take.
const TRY_MS: u64 = 120_000;
/// Longest that a server may hold on to a request that was cancelled.
const CANCEL_MS: u64 = 200;
/// Most tokens of an answer; some models think before they say a word.
const MAX_OUTPUT_TOKENS: u32 = 2_048;

/// What came of one try.
#[derive(Debug, Serialize)]
struct Tried {
    check: &'static str,
    ok: bool,
    duration_ms: u64,
    detail: String,
}

/// Runs the command.
pub(crate) fn run(command: &ProviderCommand) -> Result<u8, Error> {
    match command {
        ProviderCommand::List { json } => list(*json),
        ProviderCommand::Test { options, json } => test(options, *json),
    }
}

fn list(json: bool) -> Result<u8, Error> {
    for known in models::KNOWN {
        let key = std::env::var_os(known.key).is_some_and(|value| !value.is_empty());
        if json {
            output::json_line(&json!({
                "provider": known.name, "dialect": known.dialect.name(),
                "base_url": known.base_url, "key": known.key, "key_is_set": key,
            }));
        } else {
            // A server of one's own may want none.
            let is_optional = known.base_url.is_none_or(|url| url.starts_with("http:"));
            let state = match (key, is_optional) {
                (true, _) => "set",
                (false, false) => "not set",
                (false, true) => "not set; needed only if the server asks for one",
            };
            let url = known.base_url.unwrap_or("(pass --base-url)");
            output::data(&format!("{:<18} {url:<52} {} {state}", known.name, known.key));
        }
    }
    if json {
        output::json_line(&json!({ "provider": "scripted" }));
    } else {
        output::data(&format!("{:<18} {:<52} needs none", "scripted", "(a file: --scenario FILE)"));
    }
    Ok(Exit::Done.status())
}

fn test(options: &ModelOptions, json: bool) -> Result<u8, Error> {
    let (here, known, Connected { remote, secrets }) = models::configured(options)?;
    let kernel = home::kernel()?;
    let runtime = super::task::runtime()?;
    let stop = Cancel::new();
    let switch = stop.clone();
    runtime.spawn(super::task::on_ctrl_c(move || switch.cancel()));
    let tried = runtime.block_on(async {
        let mut questions = kernel.questions(&here, &remote, &secrets)?;
        let mut trial = Trial { questions: &mut questions, model: remote.model(), stop: &stop };
        Ok::<_, Error>(trial.run(json).await)
    })?;
    if stop.is_cancelled() {
        return Ok(Exit::Cancelled.status());
    }
    // A form is nice to have; without the others no session can work.
    let ok = tried.iter().all(|tried| tried.ok || tried.check == "structured");
    if json {
        output::json_line(&json!({
            "ok": ok, "provider": known.name, "model": remote.model(), "checks": tried.len(),
        }));
    } else {
        output::note(if ok { "this provider can be used" } else { "this provider cannot be used" });
    }
    Ok(if ok { Exit::Done } else { Exit::Unfinished }.status())
}

struct Trial<'q, 'k> {
    questions: &'q mut Questions<'k>,
    model: &'q str,
    /// Set by whoever waits no longer.
    stop: &'q Cancel,
}

type Judged = Result<String, String>;

impl Trial<'_, '_> {
    async fn run(&mut self, json: bool) -> Vec<Tried> {
        let mut all = Vec::new();
        let tell = |check: &'static str, started: Instant, judged: Judged| {
            let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            let ok = judged.is_ok();
            let detail = judged.unwrap_or_else(|why| why);
            let tried = Tried { check, ok, duration_ms, detail };
            show(&tried, json);
            tried
        };
        let started = Instant::now();
        all.push(tell("text", started, self.text().await));
        if !all[0].ok {
            // What cannot say a word cannot call a tool either; four more bills prove nothing.
            return all;
        }
        let started = Instant::now();
        let called = self.call().await;
        let calls = called.as_ref().ok().map(|(request, answer)| (request.clone(), answer.clone()));
        let judged = called.map(|(_, answer)| format!("called {}", answer.calls[0].tool));
        all.push(tell("tool_call", started, judged));
        if let Some((request, answer)) = calls {
            let started = Instant::now();
            all.push(tell("tool_result", started, self.result(request, answer).await));
        }
        let started = Instant::now();
        all.push(tell("structured", started, self.structured().await));
        let started = Instant::now();
        all.push(tell("cancel", started, self.cancel().await));
        all
    }

    fn request(&self, text: &str) -> ModelRequest {
        ModelRequest {
            model: self.model.to_owned(),
            system: "You are being tested. Do exactly what you are asked.".to_owned(),
            messages: vec![Message::user(text)],
            max_output_tokens: MAX_OUTPUT_TOKENS,
            ..ModelRequest::default()
        }
    }

    async fn ask(&mut self, request: ModelRequest) -> Result<Completion, String> {
        let cancel = Cancel::new();
        let mut sink = |_| {};
        let mut asking = std::pin::pin!(self.questions.ask(request, &mut sink, &cancel));
        let limit = Duration::from_millis(TRY_MS);
        let answer = tokio::select! {
            answer = &mut asking => Some(answer),
            () = tokio::time::sleep(limit) => None,
            () = self.stop.cancelled() => None,
        };
        let answer = match answer {
            Some(answer) => answer,
            None => {
                // Its end is recorded like every other.
                cancel.cancel();
                asking.await
            }
        };
        answer.map_err(|error| error.to_string())
    }

    async fn text(&mut self) -> Judged {
        let answer = self.ask(self.request("Say the word: ready")).await?;
        if answer.text.trim().is_empty() {
            return Err(format!("the answer is empty, ended by {:?}", answer.finish));
        }
        let usage = answer.usage;
        let counted = usage.total() - usage.output;
        let tokens = match (counted, usage.output) {
            (0, 0) => "the server counts no tokens".to_owned(),
            (input, output) => format!("{input} tokens in, {output} out"),
        };
        Ok(format!("`{}`, {tokens}", excerpt(&answer.text)))
    }

    async fn call(&mut self) -> Result<(ModelRequest, Completion), String> {
        let mut request = self.request("Call the tool test.echo with the text: ping");
        request.tools = vec![ToolSpec {
            name: "test.echo".to_owned(),
            description: "Repeats a text.".to_owned(),
            parameters: json!({"type": "object", "required": ["text"],
                "properties": {"text": {"type": "string"}}}),
        }];
        let answer = self.ask(request.clone()).await?;
        let Some(call) = answer.calls.first() else {
            return Err(format!("it made no call and said `{}`", excerpt(&answer.text)));
        };
        let arguments: Option<Value> = serde_json::from_str(&call.arguments).ok();
        if call.tool != "test.echo" || !arguments.is_some_and(|a| a["text"].is_string()) {
            let written = excerpt(&call.arguments);
            return Err(format!("it called `{}` with `{written}`", excerpt(&call.tool)));
        }
        Ok((request, answer))
    }

    async fn result(&mut self, mut request: ModelRequest, answer: Completion) -> Judged {
        let results = answer.calls.iter().map(|call| Message::ToolResult {
            id: call.id.clone(),
            content: "ping".to_owned(),
            status: "completed".to_owned(),
        });
        let results: Vec<_> = results.collect();
        request.messages.push(Message::Assistant {
            text: answer.text,
            calls: answer.calls,
            carry: answer.carry,
        });
        request.messages.extend(results);
        let answer = self.ask(request).await?;
        Ok(format!("went on with `{}`", excerpt(&answer.text)))
    }

    async fn structured(&mut self) -> Judged {
        let mut request = self.request("How much is two plus three?");
        request.format = Some(OutputFormat {
            name: "sum".to_owned(),
            schema: json!({"type": "object", "required": ["sum"], "additionalProperties": false,
                "properties": {"sum": {"type": "integer"}}}),
            strict: true,
        });
        let answer = self.ask(request).await?;
        match serde_json::from_str::<Value>(&answer.text) {
            Ok(value) if value["sum"].is_i64() => Ok(format!("`{}`", excerpt(&answer.text))),
            _ => Err(format!("not in the form that was asked for: `{}`", excerpt(&answer.text))),
        }
    }

    /// Cancels at the first piece; the connection is closed when the request has ended.
    async fn cancel(&mut self) -> Judged {
        let request = self.request("Count from one to five hundred, in words.");
        let cancel = Cancel::new();
        let mut at = None;
        let mut sink = |delta: Delta| {
            if at.is_none() && matches!(delta, Delta::Text(_) | Delta::Reasoning(_)) {
                at = Some(Instant::now());
                cancel.cancel();
            }
        };
        let answer = self.questions.ask(request, &mut sink, &cancel).await;
        let ended_ms = at.map(|at| at.elapsed().as_millis());
        match (answer, ended_ms) {
            (Ok(answer), None) if answer.finish == Finish::Stop => {
                Err("the answer came without a piece to cancel at".to_owned())
            }
            (Ok(_), _) => Ok("the whole answer came in one piece".to_owned()),
            (Err(error), at) if at.is_none() || !error.is(provider_codes::PROVIDER_CANCELLED) => {
                Err(error.to_string())
            }
            (Err(error), None) => Err(error.to_string()),
            (Err(_), Some(ms)) if ms <= u128::from(CANCEL_MS) => {
                Ok(format!("closed within {ms} ms"))
            }
            (Err(_), Some(ms)) => Err(format!("closed only after {ms} ms")),
        }
    }
}

fn show(tried: &Tried, json: bool) {
    if json {
        output::json_line(tried);
        return;
    }
    let mark = if tried.ok { "ok" } else { "FAILED" };
    let detail = output::visible(&tried.detail, false);
    output::data(&format!("{:<12} {mark:<7} {:>6} ms  {detail}", tried.check, tried.duration_ms));
}

/// The beginning of a text, in one line.
fn excerpt(text: &str) -> String {
    excerpt_of(text, 60)
}
