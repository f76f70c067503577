//! RuntimePlan documents: user interfaces as data.
//!
//! A plan is a JSON document with a tree of elements, a state and transitions. This crate reads it
//! within limits ([`parse`]), decides whether a profile accepts it ([`check`]), steps its state
//! ([`state::apply`]) and renders it ([`render`], [`render_page`]). It does no I/O, keeps no time and
//! starts no threads: equal input gives equal bytes, on a server and in a browser.
//!
//! Model output is data here. Nothing of a plan is ever run; `source`, components and lanes with
//! code are refused until an engine for them is built, and a refused plan renders nothing.

#![forbid(unsafe_code)]

pub mod build;
pub mod change;
pub mod codes;
pub mod guard;
pub mod hash;
pub mod intake;
pub mod json;
pub mod module;
pub mod normalise;
pub mod patch;
pub mod path;
pub mod quota;
pub mod registry;
pub mod source;
pub mod state;
pub mod stream;
pub mod template;

mod attributes;
mod check;
mod error;
mod escape;
mod event;
mod host;
mod limits;
mod made;
mod page;
mod plan;
mod probe;
mod profile;
mod render;
mod report;
mod rules;
mod schema;
mod size;
mod suggest;
mod tree;

pub use check::{MAX_ID_BYTES, check, check_text, check_to_run, check_to_show};
pub use error::{Code, Error, ErrorReport};
pub use event::{Event, MAX_NAME_BYTES, MAX_PAYLOAD_BYTES, MAX_PAYLOAD_DEPTH};
pub use limits::{Limits, MAX_BYTES, MAX_DEPTH, MAX_NODES, MAX_STRING_BYTES, MAX_VALUES};
pub use made::Written;
pub use page::render_page;
pub use plan::{LANE_WITHOUT_CODE, Plan, SPEC_VERSION, parse};
pub use probe::{Dependency, Probe, Usage, probe, probe_to_run};
pub use profile::{Profile, ProfileName, UnknownProfile};
pub use render::{Context, EventBinding, Html, MAX_OUTPUT_BYTES, render};
pub use report::{Issue, MAX_ISSUES, MAX_NOTES, Report};
pub use rules::attribute::shown_attribute;
pub use rules::element::allowed_tags;
pub use rules::event::event_binding;
pub use rules::inspect::{Addresses, inspect_url_attribute, is_url_attribute};
pub use schema::schema;
pub use tree::{Component, Element, Node, Text};
