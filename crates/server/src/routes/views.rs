//! Documents of a branch, and words in what was said and done.

use glasshouse_kernel::driver::{DOCUMENTS, Found, Search};
use glasshouse_model::SessionId;
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ask::{Ask, invalid};
use crate::page::{self, MOST};
use crate::reply::Reply;
use crate::routes::insight::OnBranch;
use crate::service::Service;
use crate::{Error, Result, codes};

/// Longest text that is looked for.
const MAX_WORDS_BYTES: usize = 200;

/// One document of a branch.
pub(crate) fn show(service: &Service, ask: &Ask) -> Result<Reply> {
    let session = ask.session()?;
    let OnBranch { branch } = ask.query()?;
    let row = service.kernel.branch(&session, branch.as_deref())?;
    let name = ask.parts.get("view").map_or("", String::as_str);
    let is_known = DOCUMENTS.contains(&name) || matches!(name, "thread" | "observations");
    if !is_known {
        let names = DOCUMENTS.join(", ");
        return Err(Error::new(codes::ROUTE_UNKNOWN, format!("there is no view `{name}`"))
            .why(format!("there are {names}, observations, thread")));
    }
    let views = service.kernel.views(&row.branch)?;
    let reply = match name {
        "thread" => {
            let text = views.thread().as_bytes().to_vec();
            Reply::of_bytes(StatusCode::OK, "text/markdown; charset=utf-8", text)
        }
        "observations" => Reply::ok(&service.kernel.observations(&row.branch, &views)?),
        _ => Reply::ok(&views.document(name).unwrap_or_default()),
    };
    let tag = format!("{}-{name}", row.head.hash.hex());
    Ok(reply.tagged(&tag, ask.if_none_match()))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "SearchQuery")]
#[serde(deny_unknown_fields)]
pub(crate) struct Words {
    /// Words that stand in one text, in any order and case.
    q: String,
    /// Only in this session.
    session: Option<SessionId>,
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
    /// Most finds of the page.
    #[schemars(range(min = 1, max = MOST))]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Finds")]
pub(crate) struct Told {
    /// What was looked for.
    q: String,
    #[serde(flatten)]
    found: Found,
}

/// Words in messages, answers, calls, outputs and commits.
pub(crate) fn search(service: &Service, ask: &Ask) -> Result<Reply> {
    let Words { q, session, cursor, limit } = ask.query()?;
    let limit = page::limit(limit)?;
    let after = cursor.map(|text| text.parse().map_err(|()| page::unusable())).transpose()?;
    if q.trim().is_empty() || q.len() > MAX_WORDS_BYTES {
        let why = format!("`q` is 1 to {MAX_WORDS_BYTES} bytes of words");
        return Err(invalid("the search cannot be made").why(why));
    }
    if let Some(session) = &session {
        ask.check_session(session)?;
        service.kernel.main_branch(session)?;
    }
    let found = service.kernel.search(&Search { words: q.clone(), session, after, limit })?;
    Ok(Reply::ok(&Told { q, found }))
}
