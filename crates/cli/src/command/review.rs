//! `glasshouse review` and `glasshouse grants`: what waits for a person, and what one gave.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use glasshouse_kernel::driver::{ApprovalName, GrantRow, GrantState, PendingApproval};
use glasshouse_kernel::{Answer, Config, Wider, codes};
use glasshouse_model::body::{ApprovalRequested, ApprovalSubject, GrantRule, GrantScope};
use glasshouse_model::{Digest, Exit, Principal, PrincipalKind, TenantId};

use crate::args::{ApproveArguments, GrantsCommand, ReviewCommand, ScopeArgument};
use crate::error::Error;
use crate::output::visible;
use crate::{home, output};

/// Most characters of a question in a list.
const MAX_LISTED_CHARS: usize = 100;

/// Runs `review`.
pub(crate) fn run(command: ReviewCommand) -> Result<u8, Error> {
    match command {
        ReviewCommand::List { json } => list(json),
        ReviewCommand::Show { approval, json } => show(&approval, json),
        ReviewCommand::Approve(arguments) => approve(&arguments),
        ReviewCommand::Reject { approval, digest, json } => {
            answer(&approval, Answer::Reject, digest.as_ref(), json)
        }
    }
}

/// Runs `grants`.
pub(crate) fn grants(command: GrantsCommand) -> Result<u8, Error> {
    match command {
        GrantsCommand::List { all, json } => list_grants(all, json),
        GrantsCommand::Revoke { grant, reason, json } => {
            let changed = home::kernel()?.revoke_grant(grant, &me(), reason.as_deref())?;
            if json {
                output::json_line(&serde_json::json!({ "grant": grant, "changed": changed }));
            } else {
                output::note(if changed { "taken back" } else { "it was taken back already" });
            }
            Ok(Exit::Done.status())
        }
    }
}

/// The person at this machine.
fn me() -> Principal {
    Principal::new(PrincipalKind::User, "local", TenantId::local())
}

fn list(json: bool) -> Result<u8, Error> {
    let pending = home::kernel()?.pending_approvals()?;
    if json {
        pending.iter().for_each(output::json_line);
    } else if pending.is_empty() {
        output::note("nothing waits for a person");
    }
    for one in pending.iter().filter(|_| !json) {
        let asked: String = visible(&in_one_line(&one.request.shown), false)
            .chars()
            .take(MAX_LISTED_CHARS)
            .collect();
        output::data(&format!(
            "{}  {}{}: {}: {asked}",
            one.approval,
            one.session,
            if one.answered { " (answered)" } else { "" },
            visible(&one.request.tool, false),
        ));
    }
    Ok(Exit::Done.status())
}

fn show(name: &ApprovalName, json: bool) -> Result<u8, Error> {
    let pending = home::kernel()?.pending_approval(name)?;
    if json {
        output::json_line(&pending);
        return Ok(Exit::Done.status());
    }
    let PendingApproval { approval, session, request, patch, .. } = &pending;
    output::data(&format!("{approval} of session {session}: {}", visible(&request.tool, false)));
    for reason in &request.reasons {
        output::data(&format!("  because {}", visible(reason, false)));
    }
    question_lines(request, patch.as_deref()).iter().for_each(|line| output::data(line));
    output::data(&format!("  digest {}", request.args_digest));
    Ok(Exit::Done.status())
}

/// What is asked, and what else a wider answer would allow.
pub(crate) fn question_lines(request: &ApprovalRequested, patch: Option<&str>) -> Vec<String> {
    let mut lines = asked_lines(request, patch);
    if let Some(offer) = &request.offer {
        lines.push("  with a wider --scope also calls like it:".to_owned());
        lines.extend(rule_lines(offer));
    }
    lines
}

/// What is to be approved: a call's arguments name by name, the lines of a text as lines; the diff of a merge.
pub(crate) fn asked_lines(request: &ApprovalRequested, patch: Option<&str>) -> Vec<String> {
    let arguments = serde_json::from_str::<serde_json::Map<_, _>>(&request.shown).ok();
    let lines: Vec<String> = match &arguments {
        Some(arguments) => {
            let mut each: Vec<_> =
                arguments.iter().map(|(name, value)| argument(name, value)).collect();
            // Where to, before a long text of what.
            each.sort_by_key(|lines| lines.len() > 1);
            each.concat()
        }
        None => request.shown.lines().map(str::to_owned).collect(),
    };
    let patch = patch.into_iter().flat_map(str::lines).map(str::to_owned);
    lines.into_iter().chain(patch).map(|line| format!("  | {}", visible(&line, false))).collect()
}

/// Arguments that say what a call is about.
const SUBJECTS: &[&str] = &["path", "argv", "script", "url", "category", "paths"];

/// What is asked in one line that may be cut: what it is about comes first, and long texts last.
fn in_one_line(shown: &str) -> String {
    let Ok(arguments) = serde_json::from_str::<serde_json::Map<_, _>>(shown) else {
        return shown.to_owned();
    };
    let mut each: Vec<_> = arguments
        .iter()
        .map(|(name, value)| {
            let place = SUBJECTS.iter().position(|subject| subject == name);
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (place.unwrap_or(SUBJECTS.len()), text.len(), format!("{name}: {text}"))
        })
        .collect();
    each.sort();
    each.into_iter().map(|(_, _, text)| text).collect::<Vec<_>>().join(", ")
}

fn argument(name: &str, value: &serde_json::Value) -> Vec<String> {
    match value.as_str() {
        // A return that no line feed follows stays in its line, where it is made visible.
        Some(text) if text.contains('\n') => {
            let mut lines = vec![format!("{name}:")];
            lines.extend(text.split_terminator('\n').map(|line| format!("    {line}")));
            if !text.ends_with('\n') {
                lines.push("    (no line end at the end)".to_owned());
            }
            lines
        }
        Some(text) => vec![format!("{name}: {text}")],
        None => vec![format!("{name}: {value}")],
    }
}

/// Conditions of an offered rule that another one leaves out: it reaches further there.
fn left_out<'a>(offer: &'a GrantRule, rule: &'a GrantRule) -> impl Iterator<Item = &'a String> {
    let offered = offer.matching.as_object().into_iter().flat_map(serde_json::Map::keys);
    offered.filter(|key| {
        let same = [key.as_str(), if *key == "argv" { "argv_prefix" } else { key }];
        same.iter().all(|key| rule.matching.get(key).is_none())
    })
}

/// A rule with its examples.
pub(crate) fn rule_lines(rule: &GrantRule) -> Vec<String> {
    let mut lines = vec![format!("    match {}", visible(&rule.matching.to_string(), false))];
    let said = |lines: &mut Vec<String>, word: &str, calls: &[String]| {
        lines.extend(calls.iter().map(|call| format!("    {word:<5} {}", visible(call, false))));
    };
    said(&mut lines, "yes", &rule.matches);
    said(&mut lines, "no", &rule.not_matches);
    lines
}

fn approve(arguments: &ApproveArguments) -> Result<u8, Error> {
    let ApproveArguments { approval, digest, scope, matching, expires, uses, json } = arguments;
    let scope = match scope {
        ScopeArgument::Call => GrantScope::Call,
        ScopeArgument::Turn => GrantScope::Turn,
        ScopeArgument::Session => GrantScope::Session,
        ScopeArgument::Workspace => GrantScope::Workspace,
    };
    let rule = matching.as_deref().map(glasshouse_policy::GrantRule::read).transpose()?;
    let wider = Wider {
        scope,
        rule,
        lifetime_us: expires.map(|ms| ms.saturating_mul(1_000)),
        max_uses: *uses,
    };
    let given = wider.rule.is_some() || wider.lifetime_us.is_some() || uses.is_some();
    let given_answer = match scope {
        GrantScope::Call if given => {
            return Err(Error::new(codes::USAGE, "an approval of one call has no further terms")
                .fix("pass --scope turn, session or workspace too"));
        }
        GrantScope::Call => Answer::Approve,
        _ => Answer::ApproveFor(wider),
    };
    answer(approval, given_answer, digest.as_ref(), *json)
}

fn answer(
    name: &ApprovalName,
    answer: Answer,
    digest: Option<&Digest>,
    json: bool,
) -> Result<u8, Error> {
    let approved = answer != Answer::Reject;
    let kernel = home::kernel()?;
    let given = match &answer {
        Answer::ApproveFor(wider) => {
            let rule = kernel.wider_rule(&kernel.pending_approval(name)?, wider)?;
            Some((wider.scope, rule))
        }
        _ => None,
    };
    let answered = kernel.answer_approval(name, answer, digest, &me())?;
    if json {
        let mut told = serde_json::json!({
            "approval": name, "session": answered.session, "approved": approved,
            "running": answered.running,
        });
        // The grant itself is made by whoever runs the session.
        if let Some((scope, rule)) = &given {
            told["scope"] = serde_json::to_value(scope).unwrap_or_default();
            told["rule"] = serde_json::to_value(rule).unwrap_or_default();
        }
        output::json_line(&told);
        return Ok(Exit::Done.status());
    }
    output::note(if approved { "approved" } else { "rejected" });
    if let Some((scope, rule)) = given {
        let scope = serde_json::to_value(scope).unwrap_or_default();
        let scope = scope.as_str().unwrap_or_default().to_owned();
        output::note(&format!("so are calls like it in this {scope}:"));
        rule_lines(&rule).iter().for_each(|line| output::note(line));
        let free = answered.request.offer.iter().flat_map(|offer| left_out(offer, &rule));
        for key in free {
            output::note(&format!(
                "  note: the offered rule is about one `{key}`; this holds for any"
            ));
        }
        output::note("  `glasshouse grants list` tells when it ends");
    }
    if !answered.running && answered.request.subject != ApprovalSubject::Policy {
        output::note(&format!(
            "hint: no process runs the session; carry on with `glasshouse session resume {}`",
            answered.session
        ));
    }
    Ok(Exit::Done.status())
}

fn list_grants(all: bool, json: bool) -> Result<u8, Error> {
    let config = |project: &Path| home::config(Config::default(), project).ok();
    let mut rows = home::kernel()?.grants(config)?;
    let is_void = |row: &&GrantRow| {
        matches!(row.state, GrantState::PolicyChanged | GrantState::RepositoryChanged)
    };
    let dead = rows.iter().filter(is_void).count();
    if dead > 0 && !all {
        output::note(&format!(
            "{dead} more ended with a change of the policy or the repository; --all lists them too"
        ));
    }
    rows.retain(|row| all || row.state == GrantState::Live);
    if json {
        rows.iter().for_each(output::json_line);
    } else if rows.is_empty() {
        output::note("no grants");
    }
    for row in rows.iter().filter(|_| !json) {
        output::data(&grant_line(row));
        rule_lines(&row.rule).iter().for_each(|line| output::data(line));
    }
    Ok(Exit::Done.status())
}

fn grant_line(row: &GrantRow) -> String {
    let words = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let scope = words(serde_json::to_value(row.scope).unwrap_or_default());
    let place = match &row.workspace {
        Some(dir) => visible(dir, false),
        None => row.session.to_string(),
    };
    let uses = match row.max_uses {
        Some(most) => format!("{} of {most} uses", row.uses),
        None => output::counted(row.uses, "use"),
    };
    let state = match row.state {
        GrantState::Live => format!("ends in {}", until(row.expires_us)),
        GrantState::RepositoryChanged => "dead: another repository".to_owned(),
        GrantState::PolicyChanged => "dead: policy changed".to_owned(),
        state => words(serde_json::to_value(state).unwrap_or_default()).replace('_', " "),
    };
    let approver = visible(&row.approver.id, false);
    format!("{}  {scope} {place}, {uses}, {state}, given by {approver}", row.grant)
}

fn until(expires_us: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    lasting(Duration::from_micros(expires_us).saturating_sub(now))
}

/// A time for people, in the unit that fits.
pub(crate) fn lasting(time: Duration) -> String {
    match time.as_secs() {
        secs @ 0..120 => format!("{secs} s"),
        secs @ 120..7_200 => format!("{} min", secs / 60),
        secs @ 7_200..172_800 => format!("{} h", secs / 3_600),
        secs => format!("{} days", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The failure: a list began with the argument of the first letter, `content`, and the path was cut off.
    #[test]
    fn a_list_names_what_a_call_is_about_first() {
        let check = |shown: &str, expected: &str| assert_eq!(in_one_line(shown), expected);
        check(r#"{"content":"a long text","path":"a.sh"}"#, "path: a.sh, content: a long text");
        check(r#"{"cwd":"a","argv":["rm","x"]}"#, r#"argv: ["rm","x"], cwd: a"#);
        check(
            r#"{"timeout_ms":5,"url":"https://a.example/"}"#,
            "url: https://a.example/, timeout_ms: 5",
        );
        check(r#"{"b":"longer","a":"long","z":1}"#, "z: 1, a: long, b: longer");
        check("2 files", "2 files");
    }

    #[test]
    fn a_question_is_shown_in_lines() {
        let check = |shown: &str, expected: &[&str]| {
            let request = serde_json::json!({
                "subject": "call", "tool": "fs.write", "args_digest": Digest::ZERO, "shown": shown, "reasons": [],
                "policy_version": Digest::ZERO, "base": Digest::ZERO,
            });
            let request: ApprovalRequested = serde_json::from_value(request).unwrap();
            let lines = asked_lines(&request, None);
            let lines: Vec<_> =
                lines.iter().map(|line| line.strip_prefix("  | ").unwrap()).collect();
            assert_eq!(lines, expected, "{shown}");
        };
        check(
            r#"{"path":"a.sh","content":"one\n  two\n\nlast"}"#,
            &[
                "path: a.sh",
                "content:",
                "    one",
                "      two",
                "    ",
                "    last",
                "    (no line end at the end)",
            ],
        );
        check(r#"{"content":"x\n","path":"a"}"#, &["path: a", "content:", "    x"]);
        check(
            r#"{"argv":["rm","-rf","a b"],"timeout_ms":5}"#,
            &[r#"argv: ["rm","-rf","a b"]"#, "timeout_ms: 5"],
        );
        // What would write over the line, or turn it around, is seen.
        check(r#"{"path":"a\rb\u001b[2K\u202ec"}"#, &["path: a\\u{d}b\\u{1b}[2K\\u{202e}c"]);
        // A text that was cut, or is no object, is shown as it is.
        check(r#"{"path":"a… (9 bytes in all)"#, &[r#"{"path":"a… (9 bytes in all)"#]);
        check("2 files\nsrc/a", &["2 files", "src/a"]);
    }
}
