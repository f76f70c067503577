//! What will not do what its author thinks, and is no fault: remarks on the tree of a source.

use glasshouse_model::Code;
use oxc_ast::ast::{
    CallExpression, Expression, JSXAttributeItem, JSXAttributeName, JSXAttributeValue,
    JSXElementName, JSXExpression, JSXOpeningElement, Program,
};
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::Scoping;
use oxc_span::GetSpan;

use super::{Diagnostic, Places};
use crate::codes;

/// Most remarks on one source.
const MAX_NOTES: usize = 20;

/// Remarks on a program.
pub(super) fn of(program: &Program<'_>, scoping: &Scoping, places: &Places<'_>) -> Vec<Diagnostic> {
    let mut notes = Notes { scoping, places, found: Vec::new() };
    notes.visit_program(program);
    notes.found
}

struct Notes<'s> {
    scoping: &'s Scoping,
    places: &'s Places<'s>,
    found: Vec<Diagnostic>,
}

impl Notes<'_> {
    fn note(&mut self, code: Code, at: u32, why: String) {
        if self.found.len() < MAX_NOTES {
            self.found.push(self.places.fault(code, at as usize, why));
        }
    }

    fn is_function(&self, value: &JSXExpression<'_>) -> bool {
        match value.as_expression().map(Expression::get_inner_expression) {
            Some(Expression::ArrowFunctionExpression(_) | Expression::FunctionExpression(_)) => {
                true
            }
            Some(Expression::Identifier(name)) => {
                let id = name.reference_id.get();
                let symbol = id.and_then(|id| self.scoping.get_reference(id).symbol_id());
                symbol.is_some_and(|symbol| self.scoping.symbol_flags(symbol).is_function())
            }
            _ => false,
        }
    }
}

impl<'a> Visit<'a> for Notes<'_> {
    fn visit_jsx_opening_element(&mut self, it: &JSXOpeningElement<'a>) {
        // A component may well take functions.
        if matches!(it.name, JSXElementName::Identifier(_)) {
            for attribute in &it.attributes {
                if let JSXAttributeItem::Attribute(attribute) = attribute
                    && let JSXAttributeName::Identifier(name) = &attribute.name
                    && name.name.get(..2).is_some_and(|on| on.eq_ignore_ascii_case("on"))
                    && let Some(JSXAttributeValue::ExpressionContainer(value)) = &attribute.value
                    && self.is_function(&value.expression)
                {
                    let why = format!("`{}` is a function, which nobody calls here", name.name);
                    self.note(codes::HANDLER_LOST, attribute.span.start, why);
                }
            }
        }
        walk::walk_jsx_opening_element(self, it);
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        if let Expression::StaticMemberExpression(member) = &it.callee
            && !it.arguments.is_empty()
        {
            let name = member.property.name.as_str();
            if name.starts_with("toLocale") || name == "localeCompare" && it.arguments.len() > 1 {
                let why = format!("`{name}` does not heed the language that it is given");
                self.note(codes::LOCALE_IGNORED, member.property.span().start, why);
            }
        }
        walk::walk_call_expression(self, it);
    }
}
