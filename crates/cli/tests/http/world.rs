//! Everything that a tenant can have, and a request on every route of the table that names some of it. Tests of
//! answers and of what strangers learn use the same requests, so a new route needs one row here.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Answer, PATIENCE, Served};
use crate::harness::{Place, git};

/// Reads a file, runs a command, answers twice.
const TALK: &str = "version: 1
steps:
  - emit: [ { call: { id: a, tool: fs.read, args: { path: tests/run.sh } } }, { call: { id: b, tool: shell.run, args: { script: 'true' } } } ]
  - emit: [ { text: \"It is a WORD.\" } ]
  - emit: [ { text: \"A WORD again.\" } ]
  - emit: [ { text: \"And a WORD once more.\" } ]
";
/// Reads what a person is asked about.
const QUESTION: &str = "version: 1
steps:
  - emit: [ { call: { id: a, tool: fs.read, args: { path: ask1.txt } } } ]
  - emit: [ { text: done } ]
";
/// Asks a person about each read of `ask*.txt`.
const ASKED: &str = "  - { name: ask-reads, match: { syscall: fs.read, path_glob: 'ask*.txt' }, action: require_review, reason: ask first }\n";
/// Answers after ten minutes: longer than anything here takes, also on a busy machine.
const SLOW: &str =
    "version: 1\nsteps:\n  - { delay_ms: 600000, emit: [ { text: \"Late WORD.\" } ] }\n";
/// A plan with an event `add`.
const PLAN: &str = include_str!("../../../../docs/guides/plans/counter.json");
/// What stands for the word of a world in the texts above.
const WORD: &str = "WORD";
/// A word that nobody has; as long as the words of worlds are.
pub(crate) const NOBODYS: &str = "harmonium";

/// Makes a key with the command.
pub(crate) fn key(place: &Place, tenant: &str, roles: &[&str], more: &[&str]) -> String {
    let mut arguments = vec!["keys", "create", "--json", "--tenant", tenant];
    roles.iter().for_each(|role| arguments.extend(["--role", role]));
    arguments.extend(more);
    let made = place.run(&arguments).expect_status(0).last();
    made["text"].as_str().unwrap().to_owned()
}

/// A project in a directory of its own.
pub(crate) fn project_of(place: &Place, name: &str) -> PathBuf {
    let project = place.path(name).join("project");
    std::fs::create_dir_all(project.join("tests")).unwrap();
    std::fs::create_dir_all(project.join(".glasshouse")).unwrap();
    std::fs::write(project.join("ask1.txt"), "secret\n").unwrap();
    std::fs::write(project.join("tests/run.sh"), "exit 0\n").unwrap();
    std::fs::write(
        project.join(".glasshouse/config.yaml"),
        "test: { command: [sh, tests/run.sh], globs: [\"tests/**\"] }\nsource: { globs: [\"src/**\"] }\n",
    )
    .unwrap();
    git(&project, &["init", "-q", "-b", "main"]);
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "first"]);
    project
}

/// Makes a tenant with the command, and a project in a directory of its own.
pub(crate) fn tenant(place: &Place, name: &str, quotas: &[&str]) -> PathBuf {
    let project = project_of(place, name);
    let root = place.path(name).display().to_string();
    let mut arguments = vec!["tenants", "create", name, "--root", &root, "--json"];
    quotas.iter().for_each(|quota| arguments.extend(["--quota", quota]));
    place.run(&arguments).expect_status(0);
    project
}

/// A client with a key of its own.
pub(crate) struct As<'a> {
    pub(crate) served: &'a Served,
    pub(crate) key: String,
}

impl As<'_> {
    pub(crate) fn send(&self, line: &str, body: Option<&Value>) -> Answer {
        self.keyed(line, &[], body)
    }

    pub(crate) fn keyed(
        &self,
        line: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Answer {
        let body = body.map(Value::to_string);
        self.served.send_as(&self.key, line, headers, body.as_deref())
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path}"), None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(&format!("POST {path}"), Some(body))
    }

    pub(crate) fn session(&self, project: &Path, scenario: &str) -> String {
        let body = json!({ "project": project, "provider": "scripted", "scenario": scenario });
        text(&self.post("/v1/sessions", &body).expect(201).json()["session"])
    }

    /// Starts a turn and waits for an event of a kind.
    pub(crate) fn turn(&self, session: &str, message: &str, until: &str) -> Vec<Value> {
        let turns = format!("/v1/sessions/{session}/turns");
        let begun = self.post(&turns, &json!({ "message": message })).expect(202).json();
        let path = format!("/v1/sessions/{session}/events/stream?from={}", begun["turn"]);
        let frames = self.served.follow_as(&self.key, &path).until(until);
        frames.into_iter().map(|frame| frame.data).collect()
    }

    /// A question that a session asks.
    fn question(&self, session: &str) -> Value {
        let listed = self.get("/v1/approvals").expect(200).json();
        let asked = listed["approvals"].as_array().unwrap().iter();
        asked.clone().find(|one| one["session"] == session).unwrap().clone()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// A request on a route of the table.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Method and path as the table has them.
    pub(crate) route: &'static str,
    /// Method, path and query as they are sent.
    pub(crate) line: String,
    pub(crate) body: Option<Value>,
}

/// A request: the parts of its path in their order, and its query.
fn call(route: &'static str, parts: &[&str], query: &str, body: Value) -> Call {
    let mut line = route.to_owned();
    for part in parts {
        let (from, to) = (line.find('{').unwrap(), line.find('}').unwrap());
        line.replace_range(from..=to, part);
    }
    assert!(!line.contains('{'), "{line}");
    Call { route, line: line + query, body: (!body.is_null()).then_some(body) }
}

/// What a tenant has, each thing once.
pub(crate) struct World {
    /// A word of nine letters that stands in all that is said in it.
    pub(crate) word: &'static str,
    /// Name of its tenant, and of the directory of its project.
    tenant: &'static str,
    project: PathBuf,
    policy: String,
    policy_digest: String,
    talk: String,
    branch: String,
    decided: u64,
    blob: String,
    sandbox: String,
    fork: String,
    asks: String,
    approval: String,
    asked_digest: String,
    grant: String,
    busy: (String, u64),
    stopped: (String, u64),
    closing: String,
    deleted: String,
    run: u64,
    rotated: String,
    revoked: String,
}

impl World {
    /// Makes everything; `runs` more runs of its plan make the numbers of runs its own.
    pub(crate) fn new(
        place: &Place,
        client: &As<'_>,
        (tenant, word): (&'static str, &'static str),
        runs: usize,
    ) -> Self {
        let project = place.path(tenant).join("project");
        let scenario = |text: &str| text.replace(WORD, word);
        let shipped = place.run(&["policy", "show", "--shipped"]).expect_status(0).stdout;
        let policy = format!("{}\n{ASKED}  # {word}\n", shipped.trim_end());
        let proposal = json!({ "project": project, "policy": policy });
        let proposed = client.post("/v1/policy/propose", &proposal).expect(200).json();
        let policy_digest = text(&proposed["digest"]);
        let approval = json!({ "project": project, "policy": policy, "digest": policy_digest });
        client.post("/v1/policy/approve", &approval).expect(200);
        let talk = client.session(&project, &scenario(TALK));
        let events = client.turn(&talk, &format!("say {word}"), "turn.completed");
        let of = |kind: &str| events.iter().find(|event| event["kind"] == kind).unwrap();
        // The last one says the word: bytes that both have are both's.
        let said = events.iter().rfind(|event| event["kind"] == "model.completed").unwrap();
        let fork = json!({ "name": format!("{word}-try"), "reason": word });
        let forked = client.post(&format!("/v1/sessions/{talk}/branches"), &fork).expect(201);
        let listed = client.get(&format!("/v1/sandboxes?session={talk}")).expect(200).json();
        let (grant, asks) = Self::ask(client, &project);
        let asked = client.question(&asks);
        let busy = || {
            let session = client.session(&project, &scenario(SLOW));
            let turns = format!("/v1/sessions/{session}/turns");
            let begun = client.post(&turns, &json!({ "message": word })).expect(202).json();
            (session, begun["turn"].as_u64().unwrap())
        };
        let made = |name: &str| {
            let body = json!({ "roles": ["viewer"], "name": name });
            text(&client.post("/v1/keys", &body).expect(201).json()["key"])
        };
        Self {
            word,
            tenant,
            policy,
            policy_digest,
            branch: text(&events[0]["branch"]),
            decided: of("tool.proposed")["seq"].as_u64().unwrap(),
            blob: text(&said["body"]["raw"]["blob"]),
            sandbox: text(&listed["sandboxes"][0]["sandbox"]),
            fork: text(&forked.json()["branch"]),
            approval: text(&asked["approval"]),
            asked_digest: text(&asked["args_digest"]),
            grant,
            asks,
            busy: busy(),
            stopped: busy(),
            closing: client.session(&project, &scenario(TALK)),
            deleted: client.session(&project, &scenario(TALK)),
            run: Self::plans(client, word, runs),
            rotated: made(word),
            revoked: made(word),
            talk,
            project,
        }
    }

    /// A right that a person gave, and a session that waits for an answer.
    fn ask(client: &As<'_>, project: &Path) -> (String, String) {
        let granted = client.session(project, QUESTION);
        client.turn(&granted, "read it", "approval.requested");
        let asked = client.question(&granted);
        let yes = json!({
            "approved": true, "digest": asked["args_digest"], "scope": "session",
            "lifetime_ms": 600_000,
        });
        let path = format!("/v1/approvals/{}", text(&asked["approval"]));
        client.post(&path, &yes).expect(200);
        let stream = format!("/v1/sessions/{granted}/events/stream");
        client.served.follow_as(&client.key, &stream).until("turn.completed");
        let grants = client.get("/v1/grants").expect(200).json();
        let asks = client.session(project, QUESTION);
        client.turn(&asks, "read it", "approval.requested");
        (text(&grants["grants"][0]["grant"]), asks)
    }

    /// Shows two versions of a plan, and answers the last run.
    fn plans(client: &As<'_>, word: &str, runs: usize) -> u64 {
        let plan = |version: u64| {
            let mut plan: Value = serde_json::from_str(PLAN).unwrap();
            plan["id"] = word.into();
            plan["version"] = version.into();
            json!({ "plan": plan.to_string(), "profile": "balanced" })
        };
        client.post("/v1/plans", &plan(1)).expect(201);
        let mut last = client.post("/v1/plans", &plan(2)).expect(201).json();
        for _ in 0..runs {
            let path = format!("/v1/plans/{word}/events");
            last = client.post(&path, &json!({ "event": "add" })).expect(200).json();
        }
        last["run"].as_u64().unwrap()
    }

    /// An approval of a policy that is not accepted yet.
    pub(crate) fn another_policy(&self, client: &As<'_>) -> Value {
        let policy = format!("{}  # again\n", self.policy);
        let proposal = json!({ "project": self.project, "policy": policy });
        let digest = client.post("/v1/policy/propose", &proposal).expect(200).json();
        json!({ "project": self.project, "policy": policy, "digest": digest["digest"] })
    }

    /// What only this world has.
    fn ids(&self) -> [&str; 13] {
        [
            &self.sandbox,
            &self.talk,
            &self.branch,
            &self.blob,
            &self.fork,
            &self.asks,
            &self.grant,
            &self.busy.0,
            &self.stopped.0,
            &self.closing,
            &self.deleted,
            &self.rotated,
            &self.revoked,
        ]
    }

    /// The same text about nobody. Each id is as long as before, so that nothing else changes.
    pub(crate) fn unknown(&self, text: &str) -> String {
        let same = |id: &str| -> String {
            let prefix = id.find(['_', ':']).map_or(1, |at| at + 1);
            let digit = if id.starts_with("sha256:") || id.starts_with("g_") { "b" } else { "z" };
            format!("{}{}", &id[..prefix], digit.repeat(id.len() - prefix))
        };
        let asking = self.approval.split_once(':').unwrap().0;
        let mut text = text.replace(asking, &same(asking));
        // The digest of the same arguments is everybody's, and still names a question of this world.
        for id in self.ids().into_iter().chain([self.asked_digest.as_str()]) {
            text = text.replace(id, &same(id));
        }
        let run = self.run.to_string();
        let nines = "9".repeat(run.len());
        text = text.replace(&format!("/runs/{run}/"), &format!("/runs/{nines}/"));
        text = text.replace(&format!("run {run}"), &format!("run {nines}"));
        let nobody = "nobodys"[..self.tenant.len()].to_owned();
        text.replace(self.word, NOBODYS).replace(self.tenant, &nobody)
    }

    /// What nobody else may ever be told.
    pub(crate) fn marks(&self) -> Vec<&str> {
        self.ids().into_iter().chain([self.word, self.tenant, &self.approval]).collect()
    }

    /// A request on every route, in an order in which each of them succeeds for who owns this world.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let mut calls = self.reads();
        calls.extend(self.work());
        calls.extend(self.plans_and_policy());
        calls.extend(self.ends());
        calls
    }

    fn reads(&self) -> Vec<Call> {
        let none = || Value::Null;
        let (talk, branch) = (self.talk.as_str(), self.branch.as_str());
        let (decided, project) = (self.decided.to_string(), self.project.display().to_string());
        let of_talk = format!("?session={talk}");
        let open = [
            "GET /openapi.json",
            "GET /playground",
            "GET /playground.js",
            "GET /playground.css",
            "GET /docs",
            "GET /docs.js",
            "GET /lanes/host.js",
            "GET /lanes/worker.html",
            "GET /lanes/frame.html",
            "GET /v1/health",
            "GET /v1/ready",
            "GET /v1/metrics",
            "GET /v1/sessions",
            "GET /v1/usage",
            "GET /v1/approvals",
            "GET /v1/plans",
            "GET /v1/whoami",
            "GET /v1/keys",
            "GET /v1/tenants",
            "GET /v1/audit/checkpoint",
        ];
        let mut calls: Vec<Call> =
            open.into_iter().map(|route| call(route, &[], "", none())).collect();
        let of_branch = format!("?branch={branch}");
        calls.extend([
            call("GET /v1/sessions/{session}", &[talk], "", none()),
            call("GET /v1/sessions/{session}/events", &[talk], &of_branch, none()),
            call("GET /v1/sessions/{session}/events/stream", &[talk], "", none()),
            call("GET /v1/sessions/{session}/branches", &[talk], "", none()),
            call(
                "GET /v1/sessions/{session}/diff",
                &[talk],
                &format!("?with={}", self.fork),
                none(),
            ),
            call("GET /v1/sessions/{session}/costs", &[talk], "", none()),
            call(
                "GET /v1/sessions/{session}/events/{seq}/explanation",
                &[talk, &decided],
                "",
                none(),
            ),
            call("GET /v1/policy", &[], &format!("?project={project}"), none()),
            call("GET /v1/sandboxes", &[], &of_talk, none()),
            call("GET /v1/sandboxes/{sandbox}", &[&self.sandbox], &of_talk, none()),
            call("GET /v1/search", &[], &format!("{of_talk}&q={}", self.word), none()),
            call("GET /v1/chat/{session}/messages", &[talk], "", none()),
            call("GET /v1/chat/{session}/stream", &[&self.busy.0], "", none()),
            call("GET /v1/approvals/{approval}", &[&self.approval], "", none()),
            call("GET /v1/grants", &[], "?all=true", none()),
            call("GET /v1/blobs/{digest}", &[&self.blob], "", none()),
            call("GET /v1/plans/{plan}/state", &[self.word], "", none()),
            call("GET /v1/audit/proofs/{branch}/{seq}", &[branch, "1"], "", none()),
        ]);
        calls.extend(self.views());
        calls
    }

    fn views(&self) -> Vec<Call> {
        const VIEWS: [&str; 10] = [
            "manifest",
            "thread",
            "plan",
            "heartbeat",
            "checkpoints",
            "tools",
            "observations",
            "soul",
            "inbox",
            "outbox",
        ];
        const ROUTE: &str = "GET /v1/sessions/{session}/views/{view}";
        VIEWS.iter().map(|view| call(ROUTE, &[&self.talk, view], "", Value::Null)).collect()
    }

    fn work(&self) -> Vec<Call> {
        let Self { talk, word, project, approval, asked_digest, .. } = self;
        let turn = self.busy.1.to_string();
        let said =
            json!([{ "id": "m1", "role": "user", "parts": [{ "type": "text", "text": word }] }]);
        let session = json!({ "project": project, "provider": "scripted", "scenario": TALK });
        let answer = json!({ "approved": true, "digest": asked_digest });
        vec![
            call("POST /v1/sessions", &[], "", session),
            call("POST /v1/sessions/{session}/branches", &[talk], "", json!({ "name": "again" })),
            call(
                "POST /v1/sessions/{session}/branches/{branch}/merge",
                &[talk, &self.fork],
                "",
                json!({ "dry_run": true }),
            ),
            call("POST /v1/sessions/{session}/replay", &[talk], "", json!({})),
            call("POST /v1/sessions/{session}/turns", &[talk], "", json!({ "message": word })),
            call(
                "POST /v1/sessions/{session}/turns/{turn}/steer",
                &[&self.busy.0, &turn],
                "",
                json!({ "message": word }),
            ),
            call("POST /v1/chat/{session}/stop", &[&self.busy.0], "", json!({})),
            call(
                "POST /v1/sessions/{session}/turns/{turn}/cancel",
                &[&self.stopped.0, &self.stopped.1.to_string()],
                "",
                json!({}),
            ),
            call("POST /v1/chat", &[], "", json!({ "id": talk, "messages": said })),
            call("POST /v1/approvals/{approval}", &[approval], "", answer),
            call("DELETE /v1/grants/{grant}", &[&self.grant], "", Value::Null),
        ]
    }

    fn plans_and_policy(&self) -> Vec<Call> {
        let Self { word, project, policy, .. } = self;
        let mut plan: Value = serde_json::from_str(PLAN).unwrap();
        plan["id"] = (*word).into();
        let mut version = |version: u64| {
            plan["version"] = version.into();
            plan.to_string()
        };
        let tried = json!({
            "project": project, "call": { "syscall": "fs.read", "path": "ask1.txt" },
        });
        let mut asked = |number: u64| {
            let text = Value::from(version(number)).to_string();
            json!({
                "prompt": "a counter", "provider": "scripted", "project": project,
                "profile": "balanced",
                "scenario": format!("version: 1\nsteps:\n  - emit: [ {{ text: {text} }} ]\n"),
            })
        };
        let (streamed, prompted) = (asked(4), asked(5));
        let shown = json!({ "plan": version(3), "profile": "balanced", "project": project });
        let digest = &self.policy_digest;
        let run = self.run.to_string();
        vec![
            call("POST /v1/policy/check", &[], "", tried.clone()),
            call("POST /v1/policy/explain", &[], "", tried),
            call(
                "POST /v1/policy/propose",
                &[],
                "",
                json!({ "project": project, "policy": policy }),
            ),
            call(
                "POST /v1/policy/approve",
                &[],
                "",
                json!({ "project": project, "policy": policy, "digest": digest }),
            ),
            call(
                "POST /v1/policy/simulate",
                &[],
                "",
                json!({ "policy": "version: 1\ncapabilities: []\n", "session": self.talk }),
            ),
            call("POST /v1/sandboxes/sweep", &[], "", json!({ "dry_run": true })),
            call("POST /v1/plans/probe", &[], "", json!({ "plan": PLAN, "profile": "balanced" })),
            call("POST /v1/plans/runs/{run}/replay", &[&run], "", json!({})),
            call("POST /v1/plans/{plan}/events", &[word], "", json!({ "event": "add" })),
            call(
                "POST /v1/plans/{plan}/rollback",
                &[word],
                "",
                json!({ "version": 1, "profile": "balanced" }),
            ),
            call("POST /v1/plans", &[], "", shown),
            call("POST /v1/plans/prompt/stream", &[], "", streamed),
            call("POST /v1/plans/prompt", &[], "", prompted),
            call("POST /v1/plans/clear", &[], "", json!({})),
        ]
    }

    fn ends(&self) -> Vec<Call> {
        let Self { tenant, .. } = self;
        let roles = json!({ "roles": ["viewer"] });
        let made = format!("{tenant}-made");
        vec![
            call("POST /v1/keys", &[], "", roles.clone()),
            call("POST /v1/keys/{key}/rotate", &[&self.rotated], "", json!({})),
            call("DELETE /v1/keys/{key}", &[&self.revoked], "", Value::Null),
            call("POST /v1/tenants", &[], "", json!({ "tenant": made, "roots": [] })),
            call("GET /v1/tenants/{tenant}", &[&made], "", Value::Null),
            call("PUT /v1/tenants/{tenant}", &[&made], "", json!({ "quotas": {} })),
            call("POST /v1/tenants/{tenant}/keys", &[&made], "", roles),
            call("DELETE /v1/tenants/{tenant}", &[&made], "", Value::Null),
            call("POST /v1/sessions/{session}/close", &[&self.closing], "", json!({})),
            call(
                "DELETE /v1/sessions/{session}",
                &[&self.deleted],
                "?keep_blobs=true",
                Value::Null,
            ),
            call("POST /v1/audit/verify", &[], "", json!({})),
        ]
    }
}

/// Sends a request, again where the turn before has not put away what it used.
pub(crate) fn settled(client: &As<'_>, call: &Call) -> Answer {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = client.send(&call.line, call.body.as_ref());
        let is_moving = ["session_owned", "turn_running", "log_busy"].contains(&&*answer.code());
        if !is_moving || Instant::now() > deadline {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Every route of the description has a request, and every request a route.
pub(crate) fn check_covered(description: &Value, calls: &[Call]) {
    let mut routes: Vec<String> = Vec::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        let methods = methods.as_object().unwrap().keys();
        routes.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    let mut called: Vec<&str> = calls.iter().map(|call| call.route).collect();
    called.sort_unstable();
    called.dedup();
    routes.sort_unstable();
    assert_eq!(routes, called, "a route of the table has no request here");
}
