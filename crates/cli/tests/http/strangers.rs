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

/// Asks about the other's things and about nobody's: the two answers are the same.
fn check_same(me: &As<'_>, theirs: &World, call: &Call) -> bool {
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
    check_covered(&served.get("/openapi.json").expect(200).json(), &theirs.calls());
    // Before it asks for anything of theirs: what one asked for oneself is in one's own history.
    gets_its_own(&me, &mine, &theirs);
    let before = they.get("/v1/sessions").expect(200).text();
    let compared = theirs.calls().iter().filter(|call| check_same(&me, &theirs, call)).count();
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
