//! Gives every import the address of what it means. Attributes are left out: what a module is, is decided
//! by its address and by who serves it.

use std::collections::BTreeMap;

use glasshouse_plan::module::{Resolver, join};
use oxc_allocator::Allocator;
use oxc_ast::ast::{
    ExportAllDeclaration, ExportFromDeclaration, Expression, ImportDeclaration, ImportExpression,
    Program, StringLiteral,
};
use oxc_ast_visit::{VisitMut, walk_mut};

use super::{Diagnostic, Places};
use crate::codes;
use crate::vendor;

/// What a program imports.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Addresses, each once, in order.
    pub(super) imports: Vec<String>,
    /// The names that were written, with their addresses.
    pub(super) named: BTreeMap<String, String>,
}

/// Rewrites all imports of a program that is at an address, if it is anywhere.
pub(super) fn rewrite<'a>(
    allocator: &'a Allocator,
    program: &mut Program<'a>,
    (manifest, base): (&BTreeMap<String, String>, Option<&str>),
    places: &Places<'_>,
) -> Result<Found, Vec<Diagnostic>> {
    let resolver = Resolver::default();
    let (found, faults) = (Found::default(), Vec::new());
    let mut rewriter = Rewriter { allocator, manifest, base, resolver, places, found, faults };
    rewriter.visit_program(program);
    if rewriter.faults.is_empty() { Ok(rewriter.found) } else { Err(rewriter.faults) }
}

struct Rewriter<'a, 's> {
    allocator: &'a Allocator,
    manifest: &'s BTreeMap<String, String>,
    base: Option<&'s str>,
    resolver: Resolver,
    places: &'s Places<'s>,
    found: Found,
    faults: Vec<Diagnostic>,
}

impl<'a> Rewriter<'a, '_> {
    fn resolve(&self, specifier: &str) -> Result<String, String> {
        if let Some(own) = vendor::own_address(specifier) {
            return Ok(own.to_owned());
        }
        let named = self.manifest.get(specifier).map_or(specifier, String::as_str);
        let address = match self.base.and_then(|base| join(base, named)) {
            Some(address) => address,
            None => self.resolver.resolve(named).map_err(|error| error.to_string())?,
        };
        // Where a host sent the address on to when it was pinned.
        Ok(self.manifest.get(&address).cloned().unwrap_or(address))
    }

    fn rewrite(&mut self, source: &mut StringLiteral<'a>) {
        let specifier = source.value.as_str().trim().to_owned();
        match self.resolve(&specifier) {
            Ok(address) => {
                source.value = self.allocator.alloc_str(&address).into();
                source.raw = None;
                if !self.found.imports.contains(&address) {
                    self.found.imports.push(address.clone());
                }
                // What is ours alone has no name that a plan could place.
                if !address.starts_with(vendor::SCHEME) {
                    self.found.named.insert(specifier, address);
                }
            }
            Err(why) => {
                let at = source.span.start as usize;
                self.faults.push(self.places.fault(codes::MODULE_UNAVAILABLE, at, why));
            }
        }
    }
}

impl<'a> VisitMut<'a> for Rewriter<'a, '_> {
    fn visit_import_declaration(&mut self, it: &mut ImportDeclaration<'a>) {
        it.with_clause = None;
        self.rewrite(&mut it.source);
    }

    fn visit_export_all_declaration(&mut self, it: &mut ExportAllDeclaration<'a>) {
        it.with_clause = None;
        self.rewrite(&mut it.source);
    }

    fn visit_export_from_declaration(&mut self, it: &mut ExportFromDeclaration<'a>) {
        it.with_clause = None;
        self.rewrite(&mut it.source);
    }

    fn visit_import_expression(&mut self, it: &mut ImportExpression<'a>) {
        if let Expression::StringLiteral(source) = &mut it.source {
            self.rewrite(source);
        }
        it.options = None;
        walk_mut::walk_import_expression(self, it);
    }
}
