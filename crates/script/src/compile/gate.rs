//! The checks on the tree of a plan's source.
//!
//! A name counts when nothing in the source defines it, however it is spelled; a member counts when
//! its name can be read off, also from joined strings. What is computed while code runs cannot be
//! seen here. So this refuses early and explains; what holds is that the engine has no such thing.

use glasshouse_model::Code;
use oxc_ast::ast::{
    AccessorProperty, AssignmentTargetPropertyIdentifier, AssignmentTargetPropertyProperty,
    BinaryOperator, BindingIdentifier, BindingProperty, ComputedMemberExpression, Decorator,
    Expression, IdentifierReference, ImportExpression, ImportMeta, ObjectProperty, Program,
    PropertyKey, StaticMemberExpression, TSExportAssignment, TSImportEqualsDeclaration,
    UnaryExpression, UnaryOperator,
};
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::Scoping;
use oxc_span::{GetSpan, Span};

use super::globals::{ALLOWED, MEMBERS, denied, instead};
use super::{Diagnostic, Places, Stores};
use crate::codes;

/// Shortest beginning of a forbidden member's name that counts as one: shorter ones begin too many
/// honest names.
const MIN_PREFIX_BYTES: usize = 3;

/// What names of the program's own begin with, where modules become functions.
const OWN: &str = "__glasshouse_";

/// Checks the names in a program; answers which of the storage that it may use it does use.
///
/// # Errors
/// Everything that is wrong with them.
pub(super) fn check(
    program: &Program<'_>,
    scoping: &Scoping,
    places: &Places<'_>,
    granted: Stores,
) -> Result<Stores, Vec<Diagnostic>> {
    passed(Gate::new(scoping, places, granted), program)
}

/// Checks the names alone, in a program from which all that only the compiler reads was taken. What defines a name
/// there defines it when it runs.
///
/// # Errors
/// Every name that nothing defines.
pub(super) fn names(
    program: &Program<'_>,
    scoping: &Scoping,
    places: &Places<'_>,
    granted: Stores,
) -> Result<Stores, Vec<Diagnostic>> {
    passed(Gate { names_only: true, ..Gate::new(scoping, places, granted) }, program)
}

fn passed(mut gate: Gate<'_>, program: &Program<'_>) -> Result<Stores, Vec<Diagnostic>> {
    gate.visit_program(program);
    if gate.found.is_empty() { Ok(gate.used) } else { Err(gate.found) }
}

struct Gate<'s> {
    scoping: &'s Scoping,
    places: &'s Places<'s>,
    granted: Stores,
    used: Stores,
    names_only: bool,
    found: Vec<Diagnostic>,
}

impl<'s> Gate<'s> {
    fn new(scoping: &'s Scoping, places: &'s Places<'s>, granted: Stores) -> Self {
        let used = Stores::default();
        Self { scoping, places, granted, used, names_only: false, found: Vec::new() }
    }
}

impl Gate<'_> {
    fn invalid(&mut self, at: Span, why: &str) {
        if !self.names_only {
            let fault = self.places.fault(codes::SOURCE_INVALID, at.start as usize, why);
            self.found.push(fault);
        }
    }

    fn deny(&mut self, at: Span, why: impl Into<String>) {
        if self.names_only {
            return;
        }
        let fault = self.places.fault(codes::SOURCE_DENIED, at.start as usize, why);
        self.found.push(fault);
    }

    /// The fault of a name, with the way on that there is for this one.
    fn name(&self, code: Code, name: &str, at: usize, why: String) -> Diagnostic {
        let fault = self.places.fault(code, at, why);
        match instead(name) {
            Some(way) => Diagnostic { fix: way.to_owned(), ..fault },
            None => fault,
        }
    }

    fn member(&mut self, at: Span, name: &str) {
        if MEMBERS.contains(&name) {
            self.deny(at, format!("the member `{name}` leads to prototypes"));
        }
    }

    /// A key in brackets, or of a pattern.
    fn computed(&mut self, key: &Expression<'_>) {
        let mut known = Known { text: String::new(), whole: true };
        known.read(key);
        if known.whole {
            self.member(key.span(), &known.text);
        } else if known.text.len() >= MIN_PREFIX_BYTES
            && MEMBERS.iter().any(|member| member.starts_with(&known.text))
        {
            self.deny(key.span(), format!("a member name begins with `{}`", known.text));
        }
    }

    fn key(&mut self, key: &PropertyKey<'_>) {
        match key {
            PropertyKey::StaticIdentifier(name) => self.member(name.span, name.name.as_str()),
            PropertyKey::PrivateIdentifier(_) => {}
            key => {
                if let Some(expression) = key.as_expression() {
                    self.computed(expression);
                }
            }
        }
    }
}

impl<'a> Visit<'a> for Gate<'_> {
    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        let Some(id) = it.reference_id.get() else { return };
        let reference = self.scoping.get_reference(id);
        let defined = reference.symbol_id().is_some_and(|symbol| {
            // What is only declared to be there (`declare const x`) is nobody's definition. Types that merge
            // with a class are declared, too.
            let flags = self.scoping.symbol_flags(symbol);
            !flags.is_ambient() || flags.is_interface() || flags.is_type_alias()
        });
        if defined || !reference.is_value() {
            return;
        }
        let name = it.name.as_str();
        if self.granted.has(name) {
            self.used.add(name);
        } else if let Some(what) = denied(name) {
            let at = it.span.start as usize;
            let why = format!("`{name}` {what}");
            self.found.push(self.name(codes::SOURCE_DENIED, name, at, why));
        } else if !ALLOWED.contains(&name) {
            let why = format!("`{name}` is neither defined nor imported");
            let at = it.span.start as usize;
            self.found.push(self.name(codes::NAME_UNKNOWN, name, at, why));
        }
    }

    fn visit_binding_identifier(&mut self, it: &BindingIdentifier<'a>) {
        if it.name.starts_with(OWN) {
            self.deny(it.span, format!("names that begin with `{OWN}` are the program's own"));
        }
    }

    fn visit_decorator(&mut self, it: &Decorator<'a>) {
        self.invalid(it.span, "decorators are not part of the language that the engine takes");
        walk::walk_decorator(self, it);
    }

    fn visit_accessor_property(&mut self, it: &AccessorProperty<'a>) {
        self.invalid(it.span, "`accessor` is not part of the language that the engine takes");
        walk::walk_accessor_property(self, it);
    }

    fn visit_unary_expression(&mut self, it: &UnaryExpression<'a>) {
        // Asking whether a name exists reaches nothing.
        let asks = it.operator == UnaryOperator::Typeof
            && matches!(it.argument.get_inner_expression(), Expression::Identifier(_));
        if !asks {
            walk::walk_unary_expression(self, it);
        }
    }

    fn visit_static_member_expression(&mut self, it: &StaticMemberExpression<'a>) {
        self.member(it.property.span, it.property.name.as_str());
        walk::walk_static_member_expression(self, it);
    }

    fn visit_computed_member_expression(&mut self, it: &ComputedMemberExpression<'a>) {
        self.computed(&it.expression);
        walk::walk_computed_member_expression(self, it);
    }

    fn visit_object_property(&mut self, it: &ObjectProperty<'a>) {
        // A member of this name in a literal is data, but for one, which sets a prototype.
        let sets = match &it.key {
            PropertyKey::StaticIdentifier(name) => name.name == "__proto__",
            PropertyKey::StringLiteral(name) => name.value == "__proto__",
            _ => false,
        };
        if sets {
            self.deny(it.key.span(), "the member `__proto__` leads to prototypes");
        }
        walk::walk_object_property(self, it);
    }

    fn visit_binding_property(&mut self, it: &BindingProperty<'a>) {
        self.key(&it.key);
        walk::walk_binding_property(self, it);
    }

    fn visit_assignment_target_property_property(
        &mut self,
        it: &AssignmentTargetPropertyProperty<'a>,
    ) {
        self.key(&it.name);
        walk::walk_assignment_target_property_property(self, it);
    }

    fn visit_assignment_target_property_identifier(
        &mut self,
        it: &AssignmentTargetPropertyIdentifier<'a>,
    ) {
        self.member(it.span, it.binding.name.as_str());
        walk::walk_assignment_target_property_identifier(self, it);
    }

    fn visit_import_expression(&mut self, it: &ImportExpression<'a>) {
        if !matches!(it.source, Expression::StringLiteral(_)) {
            self.deny(it.span, "which module is imported is not written down");
        }
        walk::walk_import_expression(self, it);
    }

    fn visit_ts_import_equals_declaration(&mut self, it: &TSImportEqualsDeclaration<'a>) {
        self.deny(it.span, "`import =` is of another kind of modules");
    }

    fn visit_ts_export_assignment(&mut self, it: &TSExportAssignment<'a>) {
        self.deny(it.span, "`export =` is of another kind of modules");
    }

    fn visit_import_meta(&mut self, it: &ImportMeta) {
        self.deny(it.span, "`import.meta` tells where code runs");
    }
}

/// The text that an expression begins with, as far as it can be read off.
struct Known {
    text: String,
    /// Whether that is all of it.
    whole: bool,
}

impl Known {
    fn read(&mut self, expression: &Expression<'_>) {
        if !self.whole {
            return;
        }
        match expression.get_inner_expression() {
            Expression::StringLiteral(literal) => self.text.push_str(literal.value.as_str()),
            Expression::BinaryExpression(sum) if sum.operator == BinaryOperator::Addition => {
                self.read(&sum.left);
                self.read(&sum.right);
            }
            Expression::TemplateLiteral(template) => {
                for (at, part) in template.quasis.iter().enumerate() {
                    if !self.whole {
                        return;
                    }
                    self.text.push_str(part.value.cooked.as_deref().unwrap_or_default());
                    if let Some(filled) = template.expressions.get(at) {
                        self.read(filled);
                    }
                }
            }
            _ => self.whole = false,
        }
    }
}
