//! A live plan: knows which nodes read which part of the state, so that an event costs what it
//! changes and not what is shown.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::{Content, Item, Items, NodeId, Patch, first_patches, item_patches, text_patch};
use crate::attributes::Showing;
use crate::check::check_to_show;
use crate::codes;
use crate::error::Error;
use crate::path;
use crate::plan::Plan;
use crate::profile::Profile;
use crate::render::{self, Context, MAX_OUTPUT_BYTES};
use crate::template::{self, Piece, Scope, is_templated};
use crate::tree::{Entry, NodeKind};

/// A plan that is shown, and what it shows where templates are.
#[derive(Debug, Clone)]
pub struct Live {
    plan: Plan,
    profile: Profile,
    surface: String,
    values: Map<String, Value>,
    bound: Vec<Bound>,
    /// Bound nodes by the member of the state that they read.
    readers: HashMap<String, Vec<usize>>,
    /// Bound nodes that read the event, the user or the host's variables.
    restless: Vec<usize>,
    /// Whether what is shown depends on the event that led to it.
    reads_event: bool,
}

/// A node with templates.
#[derive(Debug, Clone)]
struct Bound {
    id: NodeId,
    shown: Shown,
}

#[derive(Debug, Clone, PartialEq)]
enum Shown {
    Text(String),
    Items(Vec<Item>),
}

impl Shown {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            // Values alone decide: names are short and bounded.
            Self::Items(items) => items
                .iter()
                .map(|item| match &item.what {
                    super::What::Attribute { value, .. } => value.as_ref().map_or(0, String::len),
                    super::What::Binding { event, .. } => {
                        event.payload().map_or(0, |payload| crate::size::of_members(payload).bytes)
                    }
                })
                .sum(),
        }
    }
}

impl Live {
    /// Takes a plan that the profile accepts.
    ///
    /// # Errors
    ///
    /// As [`render`](crate::render): a refused plan becomes nothing.
    pub fn new(plan: Plan, profile: &Profile, context: &Context<'_>) -> Result<Self, Error> {
        let report = check_to_show(&plan, profile);
        if !report.safe {
            return Err(render::refused(&plan, &report));
        }
        let values = context.values(&plan)?.into_owned();
        let mut live = Self {
            plan,
            profile: profile.clone(),
            surface: context.surface().to_owned(),
            values,
            bound: Vec::new(),
            readers: HashMap::new(),
            restless: Vec::new(),
            reads_event: false,
        };
        live.bind(context)?;
        Ok(live)
    }

    /// Finds the nodes with templates and what they show now.
    fn bind(&mut self, context: &Context<'_>) -> Result<(), Error> {
        if !self.plan.may_hold_templates() {
            return Ok(());
        }
        let mut bytes = 0;
        for (id, entry) in (0u32..).zip(&self.plan.tree().entries) {
            let mut reads = Reads::default();
            self.reads(*entry, &mut reads);
            if reads.any {
                let shown = self.shown(*entry, &context.scope(&self.values))?;
                bytes += shown.bytes();
                within(bytes)?;
                let at = self.bound.len();
                self.bound.push(Bound { id, shown });
                for key in reads.keys {
                    self.readers.entry(key).or_default().push(at);
                }
                if reads.restless {
                    self.restless.push(at);
                }
                self.reads_event |= reads.event;
            }
        }
        Ok(())
    }

    fn reads(&self, entry: Entry, reads: &mut Reads) {
        let document = self.plan.document();
        match entry.kind {
            NodeKind::Text => reads.text(entry.name_in(document)),
            NodeKind::Element => {
                for (_, value) in entry.props_in(document).into_iter().flatten() {
                    template::each_text(value, &mut |text| reads.text(text));
                }
            }
            NodeKind::Component => {}
        }
    }

    fn shown(&self, entry: Entry, scope: &Scope<'_>) -> Result<Shown, Error> {
        let document = self.plan.document();
        let Some(element) = entry.element else {
            return Ok(Shown::Text(
                template::resolve_text(entry.name_in(document), scope).into_owned(),
            ));
        };
        let showing = Showing {
            profile: &self.profile,
            surface: &self.surface,
            scope: Some(*scope),
            templates: true,
            made: self.plan.made(),
        };
        let mut items = Items::default();
        showing.show(element, entry.props_in(document), &mut items)?;
        Ok(Shown::Items(items.list))
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The patches that make any view of the plan show it as it is now: for a view that was led to by an
    /// event which is not known, where the plan reads the event.
    ///
    /// # Errors
    ///
    /// `plan_output_too_large`.
    pub fn anew(&self, context: &Context<'_>) -> Result<Vec<Patch>, Error> {
        let mut patches = vec![Patch::Del { id: 0 }];
        patches.extend(self.first(context)?);
        Ok(patches)
    }

    /// Whether what is shown depends on the event that led to it.
    #[must_use]
    pub fn reads_event(&self) -> bool {
        self.reads_event
    }

    /// The patches that make an empty view show the plan.
    ///
    /// # Errors
    ///
    /// `plan_output_too_large`.
    pub fn first(&self, context: &Context<'_>) -> Result<Vec<Patch>, Error> {
        let scope = context.scope(&self.values);
        let mut patches = Vec::with_capacity(self.plan.node_count() * 3);
        let mut bytes = 0;
        for (id, entry) in (0u32..).zip(&self.plan.tree().entries) {
            let shown = self.shown(*entry, &scope)?;
            bytes += shown.bytes();
            within(bytes)?;
            let (node, items) = match shown {
                Shown::Text(text) => (Content::Text(text), Vec::new()),
                Shown::Items(items) => {
                    let tag = entry.element.map_or("", |row| row.name());
                    (Content::Tag(tag.into()), items)
                }
            };
            let parent = (entry.depth > 0).then_some(entry.parent);
            patches.push(Patch::Ins { id, parent, before: None, node });
            first_patches(id, items, &mut patches);
            patches.push(Patch::Ready { id });
        }
        Ok(patches)
    }

    /// Goes on to another state, event or user and answers what changes in the view. Only nodes that
    /// read a member of the state that changed are looked at.
    ///
    /// # Errors
    ///
    /// `plan_state_plan_mismatch`, `plan_output_too_large`; then nothing has changed.
    pub fn update(&mut self, context: &Context<'_>) -> Result<Vec<Patch>, Error> {
        let values = context.values(&self.plan)?;
        let scope = context.scope(&values);
        let mut touched: BTreeSet<usize> = self.restless.iter().copied().collect();
        for (key, readers) in &self.readers {
            if self.values.get(key) != values.get(key) {
                touched.extend(readers);
            }
        }
        let mut patches = Vec::new();
        let mut next = Vec::new();
        let mut bytes = 0;
        for at in touched {
            let bound = &self.bound[at];
            let entry = self.plan.tree().entries[bound.id as usize];
            let shown = self.shown(entry, &scope)?;
            bytes += shown.bytes();
            within(bytes)?;
            if shown == bound.shown {
                continue;
            }
            match (&bound.shown, &shown) {
                (Shown::Text(old), Shown::Text(new)) => {
                    patches.extend(text_patch(bound.id, old, new));
                }
                (Shown::Items(old), Shown::Items(new)) => {
                    item_patches(bound.id, old, new, &mut patches);
                }
                _ => {}
            }
            next.push((at, shown));
        }
        self.values = values.into_owned();
        for (at, shown) in next {
            self.bound[at].shown = shown;
        }
        Ok(patches)
    }
}

fn within(bytes: usize) -> Result<(), Error> {
    if bytes <= MAX_OUTPUT_BYTES {
        return Ok(());
    }
    Err(Error::new(codes::OUTPUT_TOO_LARGE, "the shown text is too large")
        .why(format!("limit {MAX_OUTPUT_BYTES} bytes"))
        .with("max", MAX_OUTPUT_BYTES))
}

/// What the templates of a node read.
#[derive(Default)]
struct Reads {
    any: bool,
    restless: bool,
    event: bool,
    keys: BTreeSet<String>,
}

impl Reads {
    fn text(&mut self, text: &str) {
        if !is_templated(text) {
            return;
        }
        for piece in template::pieces(text) {
            let Piece::Expression(expression) = piece else { continue };
            self.any = true;
            let restless = ["vars.", "event.", "context."];
            if restless.iter().any(|prefix| expression.starts_with(prefix)) {
                self.restless = true;
                self.event |= expression.starts_with("event.");
                continue;
            }
            let path = expression.strip_prefix("state.").unwrap_or(expression);
            self.keys.extend(path::split(path).next().map(str::to_owned));
        }
    }
}
