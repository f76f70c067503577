//! Event properties: `onClick: "name"` or `onClick: {type, payload}`. They never become code.

use serde_json::{Map, Value};

use super::Refusal;
use crate::codes;
use crate::event::Event;
use crate::json::{Json, Kind};

/// Longest event name of a browser, and longest name a plan gives one.
const MAX_DOM_EVENT_BYTES: usize = 32;
const MAX_TYPE_BYTES: usize = 256;

/// Handler attributes of HTML in lower case; a property spelled like one is an attempt to write
/// code, other words that begin with `on` are not.
const HANDLERS: &[&str] = &[
    "abort",
    "afterprint",
    "animationcancel",
    "animationend",
    "animationiteration",
    "animationstart",
    "auxclick",
    "beforecopy",
    "beforecut",
    "beforeinput",
    "beforematch",
    "beforepaste",
    "beforeprint",
    "beforetoggle",
    "beforeunload",
    "begin",
    "blur",
    "cancel",
    "canplay",
    "canplaythrough",
    "change",
    "click",
    "close",
    "contextmenu",
    "contextlost",
    "contextrestored",
    "copy",
    "cuechange",
    "cut",
    "dblclick",
    "drag",
    "dragend",
    "dragenter",
    "dragleave",
    "dragover",
    "dragstart",
    "drop",
    "durationchange",
    "emptied",
    "end",
    "ended",
    "error",
    "focus",
    "focusin",
    "focusout",
    "formdata",
    "fullscreenchange",
    "fullscreenerror",
    "gotpointercapture",
    "hashchange",
    "input",
    "invalid",
    "keydown",
    "keypress",
    "keyup",
    "languagechange",
    "load",
    "loadeddata",
    "loadedmetadata",
    "loadstart",
    "lostpointercapture",
    "message",
    "messageerror",
    "mousedown",
    "mouseenter",
    "mouseleave",
    "mousemove",
    "mouseout",
    "mouseover",
    "mouseup",
    "mousewheel",
    "offline",
    "online",
    "pagehide",
    "pageshow",
    "paste",
    "pause",
    "play",
    "playing",
    "pointercancel",
    "pointerdown",
    "pointerenter",
    "pointerleave",
    "pointermove",
    "pointerout",
    "pointerover",
    "pointerrawupdate",
    "pointerup",
    "popstate",
    "progress",
    "ratechange",
    "readystatechange",
    "rejectionhandled",
    "repeat",
    "reset",
    "resize",
    "scroll",
    "scrollend",
    "search",
    "securitypolicyviolation",
    "seeked",
    "seeking",
    "select",
    "selectionchange",
    "selectstart",
    "show",
    "slotchange",
    "stalled",
    "storage",
    "submit",
    "suspend",
    "timeupdate",
    "toggle",
    "touchcancel",
    "touchend",
    "touchmove",
    "touchstart",
    "transitioncancel",
    "transitionend",
    "transitionrun",
    "transitionstart",
    "unhandledrejection",
    "unload",
    "volumechange",
    "waiting",
    "webkitanimationend",
    "webkitanimationiteration",
    "webkitanimationstart",
    "webkittransitionend",
    "wheel",
];

/// A property that binds a browser event to an event of the plan.
#[derive(Debug, Clone)]
pub(crate) struct Binding<'a> {
    pub(crate) dom_event: String,
    pub(crate) kind: &'a str,
    pub(crate) payload: Option<Json<'a>>,
}

/// What a property is.
#[derive(Debug)]
pub(crate) enum Property<'a> {
    /// Not about events.
    Other,
    /// A binding.
    Binding(Binding<'a>),
    /// Spelled like a handler, but not a binding.
    Handler(Refusal),
}

/// Reads a property.
pub(crate) fn read<'a>(prop: &str, value: Json<'a>) -> Property<'a> {
    let Some(("on", rest)) = prop
        .split_at_checked(2)
        .map(|(on, rest)| (if on.eq_ignore_ascii_case("on") { "on" } else { "" }, rest))
    else {
        return Property::Other;
    };
    let camel =
        prop.starts_with("on") && rest.starts_with(|first: char| first.is_ascii_uppercase());
    if !camel {
        let lower = rest.to_ascii_lowercase();
        return if HANDLERS.contains(&lower.as_str()) {
            Property::Handler(Refusal::new(codes::EVENT_INVALID, "a handler holds code"))
        } else {
            Property::Other
        };
    }
    match binding_of(prop, value) {
        Some(binding) => Property::Binding(binding),
        None => Property::Handler(Refusal::new(
            codes::EVENT_INVALID,
            "on<Event> with a name, or with a type and an object as payload, is expected",
        )),
    }
}

/// The binding that a property makes, if it makes one.
pub(crate) fn binding_of<'a>(prop: &str, value: Json<'a>) -> Option<Binding<'a>> {
    let rest = prop.strip_prefix("on")?;
    let dom_event = rest.to_ascii_lowercase();
    let plain = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-')
    };
    let named = rest.starts_with(|first: char| first.is_ascii_uppercase())
        && dom_event.len() <= MAX_DOM_EVENT_BYTES
        && dom_event.bytes().all(plain);
    if named { binding(dom_event, value) } else { None }
}

/// The browser's event and the plan's event that a property binds, if it binds any.
///
/// ```
/// use glasshouse_plan::{event_binding, json::Document};
/// let value = Document::parse(r#""save""#, &Default::default())?;
/// let (dom_event, event) = event_binding("onClick", value.root()).expect("a binding");
/// assert_eq!((dom_event.as_str(), event.kind()), ("click", "save"));
/// # Ok::<(), glasshouse_plan::Error>(())
/// ```
#[must_use]
pub fn event_binding(prop: &str, value: Json<'_>) -> Option<(String, Event)> {
    let binding = binding_of(prop, value)?;
    let payload = binding.payload.map(|payload| match payload.to_value() {
        Value::Object(members) => members,
        _ => Map::new(),
    });
    Some((binding.dom_event, Event::new(binding.kind, payload).ok()?))
}

fn binding(dom_event: String, value: Json<'_>) -> Option<Binding<'_>> {
    let (kind, payload) = match value.kind() {
        Kind::Text(kind) => (kind, None),
        Kind::Object(_) => (value.get("type")?.as_text()?, value.get("payload")),
        _ => return None,
    };
    let kind = kind.trim();
    let object = payload.is_none_or(|payload| payload.as_object().is_some());
    (!kind.is_empty() && kind.len() <= MAX_TYPE_BYTES && object).then_some(Binding {
        dom_event,
        kind,
        payload,
    })
}
