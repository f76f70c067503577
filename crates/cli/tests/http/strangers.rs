//! Two tenants with the same things, and every route of the table asked by one about the other.

use serde_json::{Value, json};

use crate::client::{Answer, Served};
use crate::harness::Place;
use crate::world::{As, Call, World, check_covered, key, project_of, settled, tenant};

/// The route of a tenant that only whoever runs the server may ask.
fn is_of_the_house(call: &Call) -> bool {
    call.route.contains("/v1/tenants") || call.route.contains("/v1/metrics")
}

/// What one may be told: nothing of the other.
fn check_silent(call: &Call, answer: &Answer, marks: &[&str]) {
    let headers: String =
        answer.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    let told = headers + &answer.text();
    for mark in marks {
        assert!(!told.contains(mark), "{} tells {mark}: {told}", call.line);
    }
}

/// The description of a route names each status that it answers.
fn check_described(document: &Value, call: &Call, answer: &Answer) {
    let (method, path) = call.route.split_once(' ').unwrap();
    let told = &document["paths"][path][method.to_lowercase()]["responses"];
    assert!(told[answer.status.to_string()].is_object(), "{} answers {}", call.line, answer.status);
}

/// Asks about the other's things and about nobody's: the two answers are the same.
fn check_same(document: &Value, me: &As<'_>, theirs: &World, call: &Call) -> bool {
    let nobodys = Call {
        line: theirs.unknown(&call.line),
        body: call
            .body
            .as_ref()
            .map(|body| serde_json::from_str(&theirs.unknown(&body.to_string())).unwrap()),
        ..call.clone()
    };
    let names_something = nobodys.line != call.line || nobodys.body != call.body;
    if !names_something {
        return false;
    }
    let answer = me.send(&call.line, call.body.as_ref());
    let nothing = me.send(&nobodys.line, nobodys.body.as_ref());
    let told = || format!("{}\n{}\n{}", call.line, answer.text(), nothing.text());
    assert_eq!(answer.status, nothing.status, "{}", told());
    assert_eq!(theirs.unknown(&answer.text()), nothing.text(), "{}", told());
    // Ids of both are equally long, so the length is compared, too.
    let headers = |answer: &Answer| {
        let mut headers = answer.headers.clone();
        headers.retain(|(name, _)| name != "date");
        headers
    };
    assert_eq!(headers(&answer), headers(&nothing), "{}", told());
    // A request that is refused for its form would be the same whoever asks.
    let is_refused = matches!(
        (answer.status, answer.code().as_str()),
        (404, _) | (403, "tenant_restricted" | "role_forbidden")
    );
    assert!(is_refused, "{}", told());
    check_described(document, call, &answer);
    check_silent(&nobodys, &nothing, &theirs.marks());
    true
}

/// Who owns a world gets all of it, and is told nothing of the other.
fn gets_its_own(client: &As<'_>, own: &World, other: &World) {
    for call in own.calls() {
        let answer = settled(client, &call);
        let is_good = (200..300).contains(&answer.status);
        assert_eq!(is_good, !is_of_the_house(&call), "{}: {}", call.line, answer.text());
        check_silent(&call, &answer, &other.marks());
    }
}

/// J4: whatever one tenant asks for of another answers as what nobody has; no byte of one is in any answer
/// of the other; and who owns it all gets it with the same requests.
#[test]
fn j4_every_route_answers_a_stranger_as_if_there_were_nothing_in_sandboxes() {
    let place = Place::new();
    tenant(&place, "quokkas", &[]);
    tenant(&place, "wombats", &[]);
    let served = Served::new(&place);
    let of = |tenant: &str| As { served: &served, key: key(&place, tenant, &["admin"], &[]) };
    let (they, me) = (of("quokkas"), of("wombats"));
    // More runs than the other has: the numbers of runs are each tenant's own.
    let theirs = World::new(&place, &they, ("quokkas", "xylophone"), 20);
    let mine = World::new(&place, &me, ("wombats", "saxophone"), 0);
    let document = described(&served);
    check_covered(&document, &theirs.calls());
    // Before it asks for anything of theirs: what one asked for oneself is in one's own history.
    gets_its_own(&me, &mine, &theirs);
    let before = they.get("/v1/sessions").expect(200).text();
    let is_compared = |call: &&Call| check_same(&document, &me, &theirs, call);
    let compared = theirs.calls().iter().filter(is_compared).count();
    assert!(compared > 50, "{compared}");
    // Nothing of theirs was changed by all that.
    assert_eq!(they.get("/v1/sessions").expect(200).text(), before);
    // A cursor of another tenant is a place in one's own list.
    let row = they.get("/v1/sessions").json()["sessions"][0].clone();
    let cursor = format!("{}.{}", row["created_us"], row["session"].as_str().unwrap());
    let page = me.get(&format!("/v1/sessions?cursor={cursor}")).expect(200).text();
    assert!(theirs.marks().iter().all(|mark| !page.contains(mark)), "{page}");
    // The control: who owns it gets it.
    gets_its_own(&they, &theirs, &mine);
}

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    fn text(&mut self, letters: &[u8], length: usize) -> String {
        (0..length).map(|_| char::from(letters[self.below(letters.len())])).collect()
    }

    /// An id with one of its letters changed.
    fn changed(&mut self, id: &str) -> String {
        if id.len() < 6 {
            return format!("{id}{}", self.text(b"y", 6));
        }
        let mut bytes = id.as_bytes().to_vec();
        let at = bytes.len() - 1 - self.below(bytes.len().min(8));
        bytes[at] = if bytes[at] == b'y' { b'x' } else { b'y' };
        String::from_utf8(bytes).unwrap()
    }
}

/// The failure: ids were guessed on six routes, and nobody looked at what the others say.
/// On every route of the description with an id in its path, each id of another tenant is changed by a letter or made
/// up: the answer is the one for what nobody has, but for the words of the id itself.
#[test]
fn ids_that_are_guessed_hit_nothing_in_sandboxes() {
    const PLAIN: &[u8] = b"abcdefghjkmnpqrstvwxyz0123456789_";
    const HOSTILE: &[u8] = b"abz019_-.:%/~\\";
    const ROUNDS: usize = 4;
    let place = Place::new();
    tenant(&place, "quokkas", &[]);
    tenant(&place, "wombats", &[]);
    let served = Served::new(&place);
    let of = |tenant: &str| As { served: &served, key: key(&place, tenant, &["admin"], &[]) };
    let (they, me) = (of("quokkas"), of("wombats"));
    let theirs = World::new(&place, &they, ("quokkas", "xylophone"), 0);
    let calls = theirs.calls();
    check_covered(&described(&served), &calls);
    let (mut numbers, mut guessed) = (Numbers(0x9e37_79b9_7f4a_7c15), 0);
    let mut routes: Vec<&str> = Vec::new();
    for call in &calls {
        if routes.contains(&call.route) {
            continue;
        }
        routes.push(call.route);
        let (path, query) = call.line.split_once('?').unwrap_or((&call.line, ""));
        let parts: Vec<&str> = path.split('/').collect();
        let ids = call.route.split('/').enumerate().filter(|(_, part)| part.starts_with('{'));
        for (at, _) in ids {
            let ask = |id: &str| {
                let mut parts = parts.clone();
                parts[at] = id;
                let line = format!("{}?{query}", parts.join("/"));
                let answer = me.send(&line, call.body.as_ref());
                assert!((400..500).contains(&answer.status), "{line}: {}", answer.text());
                (answer.status, answer.text().replace(id, "ID"), line)
            };
            let (status, nothing, _) = ask(&"z".repeat(12));
            for _ in 0..ROUNDS {
                let length = 6 + numbers.below(40);
                for id in [numbers.changed(parts[at]), numbers.text(PLAIN, length)] {
                    let (found, told, line) = ask(&id);
                    assert_eq!((found, told), (status, nothing.clone()), "{line}");
                    guessed += 1;
                }
                ask(&format!("a{}", numbers.text(HOSTILE, length)));
            }
        }
    }
    assert!(guessed > 35 * 2 * ROUNDS, "{guessed}");
}

/// One name of a request in two tenants is two requests.
#[test]
fn a_name_of_a_request_is_a_tenants_own() {
    const TALK: &str = "version: 1\nsteps:\n  - emit: [ { text: Hello. } ]\n";
    let place = Place::new();
    let projects = ["mine", "other"].map(|name| (name, tenant(&place, name, &[])));
    let served = Served::new(&place);
    for (name, project) in &projects {
        let client = As { served: &served, key: key(&place, name, &["admin"], &[]) };
        let body = json!({ "project": project, "provider": "scripted", "scenario": TALK });
        let start = || {
            let named = [("idempotency-key", "same")];
            client.keyed("POST /v1/sessions", &named, Some(&body)).expect(201)
        };
        assert_eq!(start().header("idempotency-replayed"), None);
        // The control: in one tenant it is one.
        assert_eq!(start().header("idempotency-replayed"), Some("true"));
    }
}

/// The installation itself, with everything in it: for tests of what it answers.
pub(crate) fn house(place: &Place, served: &Served) -> World {
    project_of(place, "house");
    let client = As { served, key: served.token.clone() };
    World::new(place, &client, ("house", "xylophone"), 0)
}

/// A description as the server tells it.
pub(crate) fn described(served: &Served) -> Value {
    served.get("/openapi.json").expect(200).json()
}
