//! Gives every import the address of what it means.

use std::collections::BTreeMap;

use glasshouse_plan::module::Resolver;
use oxc_allocator::Allocator;
use oxc_ast::ast::{
    ExportAllDeclaration, ExportFromDeclaration, Expression, ImportDeclaration, ImportExpression,
    Program, StringLiteral,
};
use oxc_ast_visit::{VisitMut, walk_mut};

use super::{Diagnostic, Places};
use crate::codes;
use crate::vendor;

/// Rewrites all imports; answers the addresses, each once, in order.
pub(super) fn rewrite<'a>(
    allocator: &'a Allocator,
    program: &mut Program<'a>,
    manifest: &BTreeMap<String, String>,
    places: &Places<'_>,
) -> Result<Vec<String>, Vec<Diagnostic>> {
    let resolver = Resolver::default();
    let mut rewriter =
        Rewriter { allocator, manifest, resolver, places, imports: Vec::new(), found: Vec::new() };
    rewriter.visit_program(program);
    if rewriter.found.is_empty() { Ok(rewriter.imports) } else { Err(rewriter.found) }
}

struct Rewriter<'a, 's> {
    allocator: &'a Allocator,
    manifest: &'s BTreeMap<String, String>,
    resolver: Resolver,
    places: &'s Places<'s>,
    imports: Vec<String>,
    found: Vec<Diagnostic>,
}

impl<'a> Rewriter<'a, '_> {
    fn resolve(&self, specifier: &str) -> Result<String, String> {
        if let Some(own) = vendor::own_address(specifier) {
            return Ok(own.to_owned());
        }
        let named = self.manifest.get(specifier).map_or(specifier, String::as_str);
        self.resolver.resolve(named).map_err(|error| error.to_string())
    }

    fn rewrite(&mut self, source: &mut StringLiteral<'a>) {
        let specifier = source.value.as_str().trim();
        match self.resolve(specifier) {
            Ok(address) => {
                source.value = self.allocator.alloc_str(&address).into();
                source.raw = None;
                if !self.imports.contains(&address) {
                    self.imports.push(address);
                }
            }
            Err(why) => {
                let at = source.span.start as usize;
                self.found.push(self.places.fault(codes::MODULE_UNAVAILABLE, at, why));
            }
        }
    }
}

impl<'a> VisitMut<'a> for Rewriter<'a, '_> {
    fn visit_import_declaration(&mut self, it: &mut ImportDeclaration<'a>) {
        self.rewrite(&mut it.source);
    }

    fn visit_export_all_declaration(&mut self, it: &mut ExportAllDeclaration<'a>) {
        self.rewrite(&mut it.source);
    }

    fn visit_export_from_declaration(&mut self, it: &mut ExportFromDeclaration<'a>) {
        self.rewrite(&mut it.source);
    }

    fn visit_import_expression(&mut self, it: &mut ImportExpression<'a>) {
        if let Expression::StringLiteral(source) = &mut it.source {
            self.rewrite(source);
        }
        walk_mut::walk_import_expression(self, it);
    }
}
