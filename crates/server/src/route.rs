//! The routes, as one table: what is served, what a reference lists, and who must have a token.

use glasshouse_kernel::driver::{
    Explained, Merging, Overview, PendingApproval, SandboxRow, Simulation, TenantRow,
};
use glasshouse_kernel::plans::Replayed;
use glasshouse_log::{EventProof, Verification};
use glasshouse_model::Decision;
use glasshouse_policy::Explanation;
use hyper::Method;

use crate::ask::Ask;
use crate::openapi::{Shape, shape};
use crate::reply::Reply;
use crate::rights::{ACT, ANSWER, HOST, MANAGE, PROVE, Rights, SEE};
use crate::service::Service;
use crate::{Result, routes, shapes};

/// Answers a request; runs on a thread that may wait.
pub(crate) type Handler = fn(&Service, &Ask) -> Result<Reply>;

/// What a route tells of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    pub(crate) query: Option<Shape>,
    pub(crate) body: Option<Shape>,
    pub(crate) needs_body: bool,
    /// Status of success.
    pub(crate) status: u16,
    /// Whether there may be nothing to answer.
    pub(crate) may_be_nothing: bool,
    /// Whether it may answer that a person is asked first.
    pub(crate) may_be_asked: bool,
    pub(crate) media_type: &'static str,
    /// What it answers; where it is no JSON, some text.
    pub(crate) answer: Option<Shape>,
    /// A kind of text that it may answer as well.
    pub(crate) or_text: Option<&'static str>,
    /// Statuses of errors that do not follow from the rest.
    pub(crate) refuses: &'static [u16],
    /// Headers that it looks at, and what they say.
    pub(crate) headers: &'static [(&'static str, &'static str)],
}

/// What of a tenant's quotas a route uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spends {
    /// It stores nothing, or makes room, or ends something: whoever has no room left can do it.
    No,
    /// It begins nothing, but stores something: there must be room for that.
    Stores,
    /// It does whenever it is asked: quotas are looked at before its handler.
    Before,
    /// Its handler looks at them: only it knows whether something begins, or was done before.
    Within,
}

use Spends::{Before, No, Stores, Within};

/// One route.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: Method,
    /// Path; parts in braces have names.
    pub(crate) path: &'static str,
    /// Whether it needs no token.
    pub(crate) is_open: bool,
    /// The rights of which one opens it.
    pub(crate) needs: Rights,
    pub(crate) spends: Spends,
    /// Whether its answer may go on after it has begun.
    pub(crate) goes_on: bool,
    /// What it does, for the reference.
    pub(crate) summary: &'static str,
    pub(crate) handler: Handler,
    pub(crate) told: Told,
}

const JSON: &str = "application/json";
const KEY: (&str, &str) = ("Idempotency-Key", "Names the request, so that it is done once");
pub(crate) const IF_NONE_MATCH: (&str, &str) =
    ("If-None-Match", "The entity tag that the client has");
pub(crate) const IF_MATCH: &str = "If-Match";
const IF_MATCH_HASH: (&str, &str) =
    (IF_MATCH, "Hash of the branch's newest event, as the client knows it");
const IF_MATCH_TAG: (&str, &str) = (IF_MATCH, "The entity tag of what the client changes");
const AI_SDK: (&str, &str) =
    ("X-AI-SDK-Version", "The version that the client reads: 6 or 7; 6 unless given");
const LAST_EVENT_ID: (&str, &str) = ("Last-Event-ID", "The last event that the client has");

const fn route(
    method: Method,
    path: &'static str,
    summary: &'static str,
    handler: Handler,
    needs: Rights,
) -> Route {
    let told = Told {
        query: None,
        body: None,
        needs_body: false,
        status: 200,
        may_be_nothing: false,
        may_be_asked: false,
        media_type: JSON,
        answer: None,
        or_text: None,
        refuses: &[],
        headers: &[],
    };
    let (spends, goes_on) = (No, false);
    Route { method, path, is_open: false, needs, spends, goes_on, summary, handler, told }
}

const fn get(path: &'static str, summary: &'static str, handler: Handler) -> Route {
    route(Method::GET, path, summary, handler, SEE)
}

/// Stores something, unless it says otherwise.
const fn post(path: &'static str, summary: &'static str, handler: Handler) -> Route {
    route(Method::POST, path, summary, handler, ACT).spends(Stores)
}

impl Route {
    const fn open(mut self) -> Self {
        self.is_open = true;
        self
    }

    /// Opened by one of these rights.
    const fn needs(mut self, needs: Rights) -> Self {
        self.needs = needs;
        self
    }

    /// Counted by quotas.
    const fn spends(mut self, spends: Spends) -> Self {
        self.spends = spends;
        self
    }

    /// Answers for as long as there is something to tell.
    const fn goes_on(mut self) -> Self {
        self.goes_on = true;
        self
    }

    const fn query(mut self, query: Shape) -> Self {
        self.told.query = Some(query);
        self
    }

    const fn body(mut self, body: Shape) -> Self {
        self.told.body = Some(body);
        self.told.needs_body = true;
        self
    }

    /// A body that may be left out.
    const fn some_body(mut self, body: Shape) -> Self {
        self.told.body = Some(body);
        self
    }

    const fn answer(mut self, answer: Shape) -> Self {
        self.told.answer = Some(answer);
        self
    }

    /// May answer a text of some kind as well.
    const fn or_text(mut self, media_type: &'static str) -> Self {
        self.told.or_text = Some(media_type);
        self
    }

    const fn status(mut self, status: u16) -> Self {
        self.told.status = status;
        self
    }

    /// May answer that there is nothing.
    const fn or_nothing(mut self) -> Self {
        self.told.may_be_nothing = true;
        self
    }

    /// May answer that a person is asked first.
    const fn or_asked(mut self) -> Self {
        self.told.may_be_asked = true;
        self
    }

    const fn media(mut self, media_type: &'static str) -> Self {
        self.told.media_type = media_type;
        self
    }

    /// May answer these errors, too.
    const fn refuses(mut self, statuses: &'static [u16]) -> Self {
        self.told.refuses = statuses;
        self
    }

    /// Whether requests to it may have a header beside those that all have.
    pub(crate) fn knows(&self, header: &str) -> bool {
        self.told.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(header))
    }

    const fn headers(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.told.headers = headers;
        self
    }
}

/// Every route of the server.
#[rustfmt::skip]
pub(crate) static ROUTES: &[Route] = &[
    get("/openapi.json", "This description of the API", routes::health::openapi).open().answer(shapes::object),
    get("/playground", "The playground of plans, a page", routes::pages::playground).open().media("text/html"),
    get("/playground.js", "Its script", routes::pages::script).open().media("text/javascript"),
    get("/playground.css", "Its style", routes::pages::style).open().media("text/css"),
    get("/docs", "The routes, a page that is made of the description", routes::pages::docs).open().media("text/html"),
    get("/docs.js", "Its script", routes::pages::docs_script).open().media("text/javascript"),
    get("/lanes/host.js", "What a page runs code of plans with", routes::pages::lanes).open().media("text/javascript"),
    get("/lanes/worker.html", "The lane sandbox-worker, with its headers", routes::pages::worker_lane).open().media("text/html"),
    get("/lanes/frame.html", "The lane sandbox-iframe, with its headers", routes::pages::frame_lane).open().media("text/html"),
    get("/v1/health", "Whether the process answers", routes::health::health).open().answer(shape::<routes::health::Health>),
    get("/v1/ready", "Whether work can be taken", routes::health::ready).answer(shape::<routes::health::Ready>),
    get("/v1/metrics", "What the server counts, for Prometheus", routes::health::metrics).media("text/plain").needs(HOST),
    get("/v1/sessions", "Sessions of agents, newest first", routes::sessions::list).query(shape::<routes::sessions::List>).answer(shape::<routes::sessions::Page>),
    post("/v1/sessions", "Start a session on a project", routes::sessions::create).body(shape::<routes::sessions::Create>).status(201).headers(&[KEY]).spends(Within).answer(shape::<Overview>),
    get("/v1/sessions/{session}", "One session", routes::sessions::show).headers(&[IF_NONE_MATCH]).answer(shape::<Overview>),
    route(Method::DELETE, "/v1/sessions/{session}", "Erase what a session said; every proof stays", routes::sessions::delete, MANAGE).query(shape::<routes::sessions::Delete>).headers(&[IF_MATCH_TAG]).answer(shape::<routes::sessions::Deleted>),
    post("/v1/sessions/{session}/close", "End a session for good", routes::sessions::close).spends(No).answer(shape::<routes::sessions::Closed>),
    get("/v1/sessions/{session}/events", "Events of a branch", routes::events::list).query(shape::<routes::events::List>).headers(&[IF_NONE_MATCH]).answer(shape::<shapes::EventsPage>),
    get("/v1/sessions/{session}/events/stream", "Follow a branch: what is stored, then what comes", routes::events::stream).refuses(&[409]).query(shape::<routes::events::Follow>).media("text/event-stream").goes_on().headers(&[LAST_EVENT_ID]),
    post("/v1/sessions/{session}/turns", "Start a turn, or carry on the last one", routes::turns::start).some_body(shape::<routes::turns::Start>).status(202).headers(&[KEY, IF_MATCH_HASH]).spends(Within).answer(shape::<routes::turns::Place>),
    post("/v1/sessions/{session}/turns/{turn}/steer", "Say something to a turn that runs", routes::turns::steer).body(shape::<routes::turns::Steer>).status(202).answer(shape::<routes::turns::Place>),
    post("/v1/sessions/{session}/turns/{turn}/cancel", "Stop a turn", routes::turns::cancel).some_body(shape::<routes::turns::Cancel>).status(202).spends(No).answer(shape::<routes::turns::Place>),
    get("/v1/sessions/{session}/branches", "Branches of a session", routes::branches::list).query(shape::<routes::branches::Listed>).answer(shape::<routes::branches::List>),
    post("/v1/sessions/{session}/branches", "Fork a branch at an event", routes::branches::fork).some_body(shape::<routes::branches::Fork>).status(201).answer(shape::<routes::branches::View>),
    post("/v1/sessions/{session}/branches/{branch}/merge", "Merge a branch into another, or tell what that would do", routes::branches::merge).some_body(shape::<routes::branches::Merge>).or_asked().spends(Within).answer(shape::<Merging>),
    get("/v1/sessions/{session}/diff", "Files that differ between two branches, or two events", routes::branches::diff).refuses(&[422]).query(shape::<routes::branches::Sides>).answer(shape::<routes::branches::Differences>),
    get("/v1/sessions/{session}/costs", "What a session's models cost", routes::insight::costs).query(shape::<routes::insight::Costed>).answer(shape::<routes::insight::Costs>),
    post("/v1/sessions/{session}/replay", "Make a branch again from its inputs and compare", routes::insight::replay).some_body(shape::<routes::insight::OnBranch>).needs(ACT.or(PROVE)).spends(No).answer(shape::<routes::insight::Replay>),
    get("/v1/sessions/{session}/events/{seq}/explanation", "Why something was decided", routes::insight::explain).query(shape::<routes::insight::OnBranch>).answer(shape::<Explained>),
    get("/v1/usage", "What all sessions used, by day and model", routes::insight::usage).query(shape::<routes::insight::Since>).answer(shape::<routes::insight::Used>),
    get("/v1/policy", "The rules that would decide in a project", routes::policy::show).refuses(&[404, 422]).query(shape::<routes::policy::Shown>).answer(shape::<routes::policy::InForce>),
    post("/v1/policy/check", "What would decide a call", routes::policy::check).body(shape::<routes::policy::Made>).needs(SEE).spends(No).answer(shape::<Decision>),
    post("/v1/policy/explain", "What would decide a call, and what would make it another decision", routes::policy::explain).body(shape::<routes::policy::Made>).needs(SEE).spends(No).answer(shape::<Explanation>),
    post("/v1/policy/propose", "What accepting a policy would change", routes::policy::propose).refuses(&[404]).body(shape::<routes::policy::Proposed>).spends(No).answer(shape::<routes::policy::Review>),
    post("/v1/policy/approve", "Accept a policy for a project", routes::policy::approve).refuses(&[404]).body(shape::<routes::policy::Approved>).needs(MANAGE).answer(shape::<routes::policy::Accepted>),
    get("/v1/sandboxes", "Sandboxes that run, or those of a session", routes::sandboxes::list).refuses(&[404, 410]).query(shape::<routes::sandboxes::Listed>).answer(shape::<routes::sandboxes::List>),
    get("/v1/sandboxes/{sandbox}", "One sandbox", routes::sandboxes::show).refuses(&[410]).query(shape::<routes::sandboxes::Chosen>).answer(shape::<SandboxRow>),
    post("/v1/sandboxes/sweep", "Remove what ended sandboxes left, or tell what that would be", routes::sandboxes::sweep).some_body(shape::<routes::sandboxes::Sweep>).needs(MANAGE).answer(shape::<routes::sandboxes::Swept>),
    post("/v1/policy/simulate", "Try another policy on past decisions", routes::insight::simulate).refuses(&[404, 410]).body(shape::<routes::insight::Candidate>).needs(SEE).spends(No).answer(shape::<Simulation>),
    get("/v1/sessions/{session}/views/{view}", "A document of a branch: manifest, thread, plan, heartbeat, checkpoints, tools, observations, soul, inbox, outbox", routes::views::show).query(shape::<routes::insight::OnBranch>).headers(&[IF_NONE_MATCH]).answer(shapes::document).or_text("text/markdown"),
    get("/v1/search", "Words in messages, answers, calls, outputs and commits", routes::views::search).refuses(&[404, 410]).query(shape::<routes::views::Words>).answer(shape::<routes::views::Told>),
    post("/v1/chat", "Say something in a chat of the AI SDK, or answer what it asked, and follow the answer", routes::chat::say).refuses(&[404, 410]).body(shape::<routes::chat::Said>).media("text/event-stream").goes_on().headers(&[AI_SDK]).needs(ACT.or(ANSWER)).spends(Within),
    get("/v1/chat/{session}/stream", "Follow the message that a chat is at; 204 where none is being made", routes::chat::resume).or_nothing().query(shape::<routes::chat::Which>).media("text/event-stream").goes_on().headers(&[AI_SDK]),
    post("/v1/chat/{session}/stop", "Stop the turn that a chat is at; 204 where none runs", routes::chat::stop).or_nothing().some_body(shape::<routes::chat::Stop>).status(202).spends(No).answer(shape::<routes::turns::Place>),
    get("/v1/chat/{session}/messages", "Messages of a chat without the one that is being made", routes::chat::messages).query(shape::<routes::chat::Listed>).answer(shape::<routes::chat::Messages>),
    get("/v1/approvals", "Questions that wait for a person", routes::approvals::list).query(shape::<crate::page::Query>).answer(shape::<routes::approvals::List>),
    get("/v1/approvals/{approval}", "One question, with what is asked for", routes::approvals::show).answer(shape::<PendingApproval>),
    post("/v1/approvals/{approval}", "Answer a question", routes::approvals::answer).body(shape::<routes::approvals::Given>).needs(ANSWER).spends(Within).answer(shape::<routes::approvals::Answered>),
    get("/v1/grants", "Rights that people gave", routes::approvals::grants).query(shape::<routes::approvals::Grants>).answer(shape::<routes::approvals::GrantList>),
    route(Method::DELETE, "/v1/grants/{grant}", "Take a right back", routes::approvals::revoke, ANSWER).answer(shape::<routes::approvals::Revoked>),
    get("/v1/blobs/{digest}", "Stored bytes by their digest", routes::blobs::show).media("application/octet-stream").headers(&[IF_NONE_MATCH]),
    get("/v1/plans", "Plans with their versions, and the newest runs", routes::plans::history).query(shape::<routes::plans::Listed>).answer(shape::<routes::plans::List>),
    post("/v1/plans", "Show a plan and register it", routes::plans::show).body(shape::<routes::plans::Show>).status(201).spends(Before).answer(shape::<routes::plans::View>),
    post("/v1/plans/probe", "What a plan needs, and whether a profile accepts it", routes::plans::probe).body(shape::<routes::plans::ToProbe>).needs(SEE).spends(Before).answer(shape::<shapes::Probed>),
    post("/v1/plans/prompt", "Let a model make a plan, show it and register it", routes::prompts::whole).body(shape::<routes::prompts::Prompt>).status(201).spends(Within).answer(shape::<routes::plans::View>),
    post("/v1/plans/prompt/stream", "The same, with previews while the plan comes, a JSON object a line", routes::prompts::stream).body(shape::<routes::prompts::Prompt>).media("application/x-ndjson").goes_on().spends(Within),
    post("/v1/plans/clear", "List plans and runs no more; the log keeps their events", routes::plans::clear).needs(MANAGE).answer(shape::<routes::plans::Cleared>),
    get("/v1/plans/{plan}/state", "The state that is shown", routes::plans::state).answer(shape::<routes::plans::Shown>),
    post("/v1/plans/{plan}/events", "Handle an event on a plan", routes::plans::event).body(shape::<routes::plans::Happened>).spends(Before).answer(shape::<routes::plans::View>),
    post("/v1/plans/{plan}/rollback", "Show an earlier version again", routes::plans::rollback).body(shape::<routes::plans::Rollback>).answer(shape::<routes::plans::View>),
    post("/v1/plans/runs/{run}/replay", "Make a run again and compare", routes::plans::replay).refuses(&[422]).needs(ACT.or(PROVE)).spends(No).answer(shape::<Replayed>),
    post("/v1/audit/verify", "Verify the whole log", routes::audit::verify).needs(PROVE).spends(No).answer(shape::<Verification>),
    get("/v1/audit/checkpoint", "The newest signed head", routes::audit::checkpoint).needs(PROVE).answer(shape::<routes::audit::Checkpoint>),
    get("/v1/whoami", "Who asks, and what the tenant may use", routes::keys::whoami).answer(shape::<routes::keys::Whoami>),
    get("/v1/keys", "Keys of the tenant", routes::keys::list).query(shape::<crate::page::Query>).needs(MANAGE.or(PROVE)).answer(shape::<routes::keys::List>),
    post("/v1/keys", "Make a key; the answer alone has its text", routes::keys::create).body(shape::<routes::keys::Create>).status(201).needs(MANAGE).answer(shape::<routes::keys::View>),
    post("/v1/keys/{key}/rotate", "Make a key in the place of another one", routes::keys::rotate).some_body(shape::<routes::keys::Rotate>).status(201).needs(MANAGE).answer(shape::<routes::keys::View>),
    route(Method::DELETE, "/v1/keys/{key}", "Take a key back", routes::keys::revoke, MANAGE).answer(shape::<routes::keys::Revoked>),
    get("/v1/tenants", "Tenants of the server", routes::tenants::list).query(shape::<crate::page::Query>).needs(HOST).answer(shape::<routes::tenants::List>),
    post("/v1/tenants", "Make a tenant", routes::tenants::create).body(shape::<routes::tenants::Create>).status(201).needs(HOST).spends(No).answer(shape::<TenantRow>),
    get("/v1/tenants/{tenant}", "One tenant", routes::tenants::show).needs(HOST).headers(&[IF_NONE_MATCH]).answer(shape::<TenantRow>),
    route(Method::PUT, "/v1/tenants/{tenant}", "Change what a tenant may do; a disabled one is used again", routes::tenants::update, HOST).body(shape::<routes::tenants::Terms>).headers(&[IF_MATCH_TAG]).answer(shape::<TenantRow>),
    route(Method::DELETE, "/v1/tenants/{tenant}", "Let nobody use a tenant any more", routes::tenants::disable, HOST).headers(&[IF_MATCH_TAG]).answer(shape::<TenantRow>),
    post("/v1/tenants/{tenant}/keys", "Make a key of a tenant", routes::tenants::create_key).body(shape::<routes::keys::Create>).status(201).needs(HOST).spends(No).answer(shape::<routes::keys::View>),
    get("/v1/audit/proofs/{branch}/{seq}", "Prove that an event is in the log", routes::audit::prove).needs(PROVE).answer(shape::<EventProof>),
];

/// The table for people, in Markdown.
#[must_use]
pub fn reference() -> String {
    let mut text = String::from(
        "# Routes of the server\n\nMade from the table that the server itself uses. [The guide](../guides/server.md) tells how they are used.\n\n| Route | Who | Does |\n|---|---|---|\n",
    );
    for Route { method, path, is_open, needs, summary, .. } in ROUTES {
        let who = if *is_open { "anybody".to_owned() } else { needs.roles().join(", ") };
        text.push_str(&format!("| `{method} {path}` | {who} | {summary} |\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_what_is_served() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/reference/http-api.md");
        let made = reference();
        if std::env::var_os("GLASSHOUSE_BLESS").is_some() {
            std::fs::write(&file, &made).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap();
        assert!(kept == made, "GLASSHOUSE_BLESS=1 writes it anew");
    }

    /// An answer that goes on and is not counted has no bound.
    #[test]
    fn whatever_streams_is_told_as_what_goes_on() {
        for route in ROUTES {
            let streams = ["text/event-stream", "application/x-ndjson"];
            assert_eq!(route.goes_on, streams.contains(&route.told.media_type), "{}", route.path);
        }
    }

    /// The failure: only routes that began a turn or a session looked at `stored_bytes`, so forks, keys and policies
    /// went on filling a log that had no room. The mend: a route that changes something looks, unless it stands here.
    #[test]
    fn whatever_stores_something_needs_room() {
        let free = [
            // They make room, take something back or end it.
            "DELETE /v1/sessions/{session}",
            "POST /v1/sessions/{session}/close",
            "POST /v1/sessions/{session}/turns/{turn}/cancel",
            "POST /v1/chat/{session}/stop",
            "DELETE /v1/grants/{grant}",
            "DELETE /v1/keys/{key}",
            // They only tell.
            "POST /v1/sessions/{session}/replay",
            "POST /v1/policy/check",
            "POST /v1/policy/explain",
            "POST /v1/policy/propose",
            "POST /v1/policy/simulate",
            "POST /v1/plans/runs/{run}/replay",
            "POST /v1/audit/verify",
            // Who sets the limits is not held to them.
            "POST /v1/tenants",
            "PUT /v1/tenants/{tenant}",
            "DELETE /v1/tenants/{tenant}",
            "POST /v1/tenants/{tenant}/keys",
        ];
        let changing = ROUTES.iter().filter(|route| route.method != Method::GET);
        let found = changing.filter(|route| route.spends == No);
        let mut found: Vec<_> =
            found.map(|route| format!("{} {}", route.method, route.path)).collect();
        let mut free: Vec<_> = free.iter().map(|route| (*route).to_owned()).collect();
        found.sort();
        free.sort();
        assert_eq!(found, free);
    }

    #[test]
    fn a_route_stands_in_the_table_once() {
        for (at, route) in ROUTES.iter().enumerate() {
            let again = |other: &&Route| (&other.method, other.path) == (&route.method, route.path);
            assert_eq!(ROUTES[..at].iter().find(again).map(|route| route.path), None);
            assert!(route.path.starts_with("/v1/") || route.is_open, "{}", route.path);
            assert!(!route.summary.ends_with('.'));
            assert_eq!(
                route.told.answer.is_some(),
                route.told.media_type == JSON,
                "{}",
                route.path
            );
        }
    }
}
