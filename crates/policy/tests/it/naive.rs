//! The meaning of a policy written down a second time, as plainly as it can be said: no index, no prepared
//! patterns, nothing of the crate's. What it does not cover it does not judge.

use glasshouse_model::{Call, Effect, PrincipalKind};
use serde_json::{Map, Value};

/// The text of a policy as data.
pub(crate) fn read(text: &str) -> Option<Value> {
    serde_saphyr::from_str(text).ok()
}

/// What a policy of one joint source decides, built-in rules included. `None` where this reading of it does
/// not reach: commands, host paths, names that are not ASCII, and texts that two readers may take differently.
pub(crate) fn decide(policy: &Value, call: &Call) -> Option<Effect> {
    if call.argv.is_some() || call.host_path.is_some() {
        return None;
    }
    let built_in = built_ins(call)?;
    if built_in == Some(Effect::Deny) {
        return Some(Effect::Deny);
    }
    let mut heard: Vec<Effect> = built_in.into_iter().collect();
    let mut sandboxes: Vec<String> = Vec::new();
    if !policy.is_null() {
        let policy = policy.as_object()?;
        for rule in policy.get("capabilities").map_or(Some(&Vec::new()), Value::as_array)? {
            heard.extend(of_rule(rule.as_object()?, call, &mut sandboxes)?);
        }
        if let Some(groups) = policy.get("network_whitelist").filter(|groups| !groups.is_null()) {
            for hosts in groups.as_object()?.values() {
                heard.extend(of_group(&texts(hosts)?, call)?);
            }
        }
    }
    sandboxes.sort();
    sandboxes.dedup();
    sandboxes.retain(|name| name != "L2");
    if sandboxes.len() > 1 {
        heard.push(Effect::Deny);
    }
    // Deny is the greatest, then review, then allow; nobody's word is a denial.
    Some(heard.into_iter().max().unwrap_or(Effect::Deny))
}

/// What the built-in rules say; the outer `None` where that cannot be told so plainly.
fn built_ins(call: &Call) -> Option<Option<Effect>> {
    let looks = ["fs.read", "fs.list", "fs.exists", "search.grep", "search.glob", "git.diff"];
    let changes = !looks.contains(&call.syscall.as_str());
    if let Some(path) = &call.path {
        if !path.as_str().is_ascii() {
            return None;
        }
        if path.as_str().split('/').any(|name| name.len() > 255) {
            return Some(Some(Effect::Deny));
        }
        if changes && path.as_str().split('/').any(is_protected) {
            return Some(Some(Effect::Deny));
        }
    }
    let lower = call.syscall.to_ascii_lowercase();
    let governs = ["policy.update", "approval.", "grant."].iter().any(|p| lower.starts_with(p));
    if governs && matches!(call.caller.kind, PrincipalKind::Agent | PrincipalKind::Plugin) {
        return Some(Some(Effect::Deny));
    }
    if call.syscall == "policy.update" || lower == "workflow.request_exemption" {
        return Some(Some(Effect::RequireReview));
    }
    let revokes = call.syscall == "grant.revoke" && call.caller.kind == PrincipalKind::User;
    Some(revokes.then_some(Effect::Allow))
}

/// Whether some file system takes an ASCII name for `.git` or `.glasshouse`.
fn is_protected(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let plain = lower.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    let is_short = |start: &str| {
        plain.strip_prefix(start).is_some_and(|digits| {
            !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_digit())
        })
    };
    plain == ".git" || plain == ".glasshouse" || is_short("git~") || is_short("glassh~")
}

/// What one rule says; the outer `None` where that cannot be told.
fn of_rule(
    rule: &Map<String, Value>,
    call: &Call,
    sandboxes: &mut Vec<String>,
) -> Option<Option<Effect>> {
    let effect = match rule.get("action")?.as_str()? {
        "allow" => Effect::Allow,
        "deny" => Effect::Deny,
        _ => Effect::RequireReview,
    };
    let when = rule.get("match")?.as_object()?;
    let mut speaks = holds(when, call)?;
    // Who allows calls in general does not mean every host.
    speaks &= effect != Effect::Allow || call.syscall != "net.connect" || when.contains_key("host");
    for except in rule.get("except").map_or(Some(&Vec::new()), Value::as_array)? {
        speaks &= !holds(except.as_object()?, call)?;
    }
    if !speaks {
        return Some(None);
    }
    let none = Map::new();
    let demands = rule.get("constraints").map_or(Some(&none), Value::as_object)?;
    if let Some(name) = demands.get("require_sandbox") {
        sandboxes.push(name.as_str()?.to_owned());
    }
    let mut broken = demands.get("require_capability_token").map_or(Some(false), Value::as_bool)?;
    if let (Some(most), Some(size)) = (demands.get("max_file_size"), call.size_bytes) {
        broken |= size > bytes(most)?;
    }
    Some(Some(if broken { Effect::Deny } else { effect }))
}

/// A group of hosts allows connections to them, by the ports of the web or the one that is written.
fn of_group(hosts: &[String], call: &Call) -> Option<Option<Effect>> {
    let (Some(host), "net.connect") = (call.host.as_deref(), call.syscall.as_str()) else {
        return Some(None);
    };
    for text in hosts {
        let (name, ports) = match text.split_once(':') {
            Some((name, port)) if !port.contains(':') => (name, vec![port.parse().ok()?]),
            _ => (text.as_str(), vec![80, 443]),
        };
        if host_holds(name, host) && call.port.is_some_and(|port| ports.contains(&port)) {
            return Some(Some(Effect::Allow));
        }
    }
    Some(None)
}

/// Whether every condition holds.
fn holds(conditions: &Map<String, Value>, call: &Call) -> Option<bool> {
    let mut all = true;
    for (key, value) in conditions {
        all &= condition(key, value, call)?;
    }
    Some(all)
}

fn condition(key: &str, value: &Value, call: &Call) -> Option<bool> {
    if key == "size_over" {
        let most = bytes(value)?;
        return Some(call.size_bytes.is_some_and(|size| size > most));
    }
    if key == "port" {
        let list = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        let ports = list.iter().map(Value::as_u64).collect::<Option<Vec<_>>>()?;
        return Some(call.port.is_some_and(|port| ports.contains(&u64::from(port))));
    }
    let items = texts(value)?;
    let any = |holds: &dyn Fn(&str) -> bool| items.iter().any(|item| holds(item));
    let is = |known: Option<&str>| known.is_some_and(|known| any(&|item| item == known));
    let caller = &call.caller;
    let kind = match caller.kind {
        PrincipalKind::User => "user",
        PrincipalKind::Agent => "agent",
        PrincipalKind::Plugin => "plugin",
        PrincipalKind::Kernel => "kernel",
    };
    Some(match key {
        "syscall" => is(Some(&call.syscall)),
        "path_glob" => match &call.path {
            Some(path) => paths_hold(&items, path.as_str())?,
            None => false,
        },
        "state_machine_state" => is(call.state.as_deref()),
        "caller" => any(&|item| item == kind || item == format!("{kind}:{}", caller.id)),
        "caller_tag" => any(&|item| caller.tags.contains(item)),
        "tenant" => is(Some(caller.tenant.as_str())),
        "plugin" => caller.kind == PrincipalKind::Plugin && is(Some(&caller.id)),
        "method" => {
            let used = call.method.as_ref().map(|method| method.to_ascii_uppercase());
            used.is_some_and(|used| any(&|item| item.to_ascii_uppercase() == used))
        }
        "label" => any(&|item| match item.strip_suffix('*') {
            Some(start) => call.labels.iter().any(|label| label.starts_with(start)),
            None => call.labels.contains(item),
        }),
        "host" => call.host.as_deref().is_some_and(|host| any(&|item| host_holds(item, host))),
        "http_path" => {
            call.http_path.as_deref().is_some_and(|path| any(&|item| http_path_holds(item, path)))
        }
        "change" => is(call.change.map(|class| class.as_str())),
        // No call of ours has a command.
        "argv" | "argv_prefix" => false,
        _ => return None,
    })
}

/// One text or a list of texts.
fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text.clone()]),
        // The words of a command may be lists of their own.
        Value::Array(items) => items
            .iter()
            .map(|item| match item {
                Value::String(text) => Some(text.clone()),
                Value::Array(_) => Some(String::new()),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

fn bytes(value: &Value) -> Option<u64> {
    let text = match value {
        Value::Number(number) => return number.as_u64(),
        other => other.as_str()?.trim(),
    };
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[digits.len()..].trim() {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(unit)
}

/// `host`, `*.host` for what is below it, `*` for all; case and one dot at the end mean nothing.
fn host_holds(pattern: &str, host: &str) -> bool {
    let plain = |text: &str| text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let (pattern, host) = (plain(pattern), plain(host));
    match pattern.strip_prefix('*') {
        Some("") => true,
        Some(end) => host.len() > end.len() && host.ends_with(end),
        None => pattern == host,
    }
}

/// An exact path, or with `*` at its end all that begin so; escapes resolved, doubled slashes one.
fn http_path_holds(pattern: &str, path: &str) -> bool {
    let mut read: Vec<u8> = Vec::new();
    let mut rest = path.as_bytes();
    while let [first, more @ ..] = rest {
        let code = match rest {
            [b'%', high, low, ..] => std::str::from_utf8(&[*high, *low])
                .ok()
                .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
                .and_then(|digits| u8::from_str_radix(digits, 16).ok()),
            _ => None,
        };
        rest = if code.is_some() { &rest[3..] } else { more };
        read.push(code.unwrap_or(*first));
        if read.ends_with(b"//") {
            read.pop();
        }
    }
    match pattern.strip_suffix('*') {
        Some(start) => read.starts_with(start.as_bytes()),
        None => read == pattern.as_bytes(),
    }
}

/// Whether one of the patterns matches, and none of those with `!`.
fn paths_hold(patterns: &[String], path: &str) -> Option<bool> {
    let mut found = false;
    for pattern in patterns.iter().filter(|pattern| !pattern.starts_with('!')) {
        found |= glob_holds(pattern, path)?;
    }
    for pattern in patterns.iter().filter_map(|pattern| pattern.strip_prefix('!')) {
        found &= !glob_holds(pattern, path)?;
    }
    Some(found)
}

/// Whether a pattern that can be read matches a path: by a table of all pairs of places, so that nothing is
/// tried twice and nothing is clever. `None` where braces and an odd class meet, which two readers of
/// patterns may take differently.
pub(crate) fn glob_holds(pattern: &str, path: &str) -> Option<bool> {
    let has_odd_class = ["[]", "[!]", "[^]"].iter().any(|class| pattern.contains(class));
    if has_odd_class && pattern.contains(['{', '}']) {
        return None;
    }
    let names: Vec<&str> = if path == "." { Vec::new() } else { path.split('/').collect() };
    Some(braces(pattern).iter().any(|plain| plain_glob_holds(plain, &names)))
}

/// Every text that the braces of a pattern stand for.
fn braces(pattern: &str) -> Vec<String> {
    let chars: Vec<char> = pattern.chars().collect();
    let (mut depth, mut in_class, mut at) = (0, false, 0);
    let mut cuts: Vec<usize> = Vec::new();
    while let Some(c) = chars.get(at) {
        match c {
            '\\' => at += 1,
            '[' => in_class = true,
            ']' => in_class = false,
            _ if in_class => {}
            '{' => {
                depth += 1;
                if depth == 1 {
                    cuts = vec![at];
                }
            }
            ',' if depth == 1 => cuts.push(at),
            '}' if depth == 1 => {
                cuts.push(at);
                let text = |from: usize, to: usize| chars[from..to].iter().collect::<String>();
                let (before, after) = (text(0, cuts[0]), text(at + 1, chars.len()));
                let parts = cuts.windows(2).map(|cut| text(cut[0] + 1, cut[1]));
                return parts.flat_map(|part| braces(&format!("{before}{part}{after}"))).collect();
            }
            '}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    vec![pattern.to_owned()]
}

fn plain_glob_holds(pattern: &str, names: &[&str]) -> bool {
    let rest = pattern.strip_prefix('/');
    let is_anchored = rest.is_some();
    let rest = rest.unwrap_or(pattern);
    let (core, is_below) = match rest.strip_suffix('/') {
        Some(core) => (core, true),
        None => (rest, false),
    };
    let mut parts: Vec<&str> = core.split('/').collect();
    if !is_anchored && parts.len() == 1 {
        parts.insert(0, "**");
    }
    if is_below {
        parts.push("**");
    }
    parts.dedup_by(|a, b| *a == "**" && *b == "**");
    // At the end of something, `**` is at least one name.
    let at_least_one = parts.len() > 1 && parts.last() == Some(&"**");
    if at_least_one {
        parts.insert(parts.len() - 1, "*");
    }
    table(
        parts.len(),
        names.len(),
        |at| parts[at] == "**",
        |at, name| name_holds(parts[at], names[name]),
    )
}

/// Whether one name matches one part: `*`, `?`, classes, and `\` before what stands for itself.
fn name_holds(part: &str, name: &str) -> bool {
    let mut items: Vec<Item> = Vec::new();
    let mut chars = part.chars();
    while let Some(c) = chars.next() {
        items.push(match c {
            '*' => Item::Many,
            '?' => Item::One,
            '\\' => Item::Of(false, chars.next().map(|c| (c, c)).into_iter().collect()),
            '[' => class(&mut chars),
            c => Item::Of(false, vec![(c, c)]),
        });
    }
    let name: Vec<char> = name.chars().collect();
    table(
        items.len(),
        name.len(),
        |at| items[at] == Item::Many,
        |at, c| match &items[at] {
            Item::Of(negated, ranges) => {
                ranges.iter().any(|(low, high)| *low <= name[c] && name[c] <= *high) != *negated
            }
            Item::One | Item::Many => true,
        },
    )
}

#[derive(PartialEq)]
enum Item {
    Many,
    One,
    Of(bool, Vec<(char, char)>),
}

/// Behind `[`, up to its `]`; one in the first place is a member.
fn class(chars: &mut std::str::Chars<'_>) -> Item {
    let mut inside: Vec<(char, bool)> = Vec::new();
    let mut negated = false;
    while let Some(c) = chars.next() {
        match c {
            '!' | '^' if inside.is_empty() && !negated => negated = true,
            ']' if !inside.is_empty() => break,
            '\\' => inside.extend(chars.next().map(|c| (c, true))),
            c => inside.push((c, false)),
        }
    }
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some((low, _)) = inside.get(at) {
        match (inside.get(at + 1), inside.get(at + 2)) {
            (Some(('-', false)), Some((high, _))) => {
                ranges.push((*low, *high));
                at += 3;
            }
            _ => {
                ranges.push((*low, *low));
                at += 1;
            }
        }
    }
    Item::Of(negated, ranges)
}

/// Whether a row of items is a row of things: `spans` is an item for any number of them, `fits` says whether
/// an item is a thing.
fn table(
    items: usize,
    things: usize,
    spans: impl Fn(usize) -> bool,
    fits: impl Fn(usize, usize) -> bool,
) -> bool {
    let mut whole = vec![vec![false; things + 1]; items + 1];
    whole[items][things] = true;
    for item in (0..items).rev() {
        for thing in (0..=things).rev() {
            whole[item][thing] = if spans(item) {
                whole[item + 1][thing] || (thing < things && whole[item][thing + 1])
            } else {
                thing < things && fits(item, thing) && whole[item + 1][thing + 1]
            };
        }
    }
    whole[0][0]
}
