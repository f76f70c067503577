//! A program with all its modules as one text, for the lanes of a browser: the body of a function of
//! `exports` that imports nothing.

use glasshouse_sandbox::Cancel;

use crate::compile::{EXPORT, EXPORT_ALL};
use crate::engine::SOURCE;
use crate::wire::{Failed, Order, Reply};
use crate::worker::{Program, Worker};
use crate::{Error, Result, codes, compile, vendor};

/// A function `node` in JavaScript: one node of what code answers.
pub const NODE_JS: &str = include_str!("../js/node.js");
/// Makes modules of functions.
const MODULES: &str = concat!(include_str!("../js/node.js"), include_str!("../js/bundle.js"));

impl Worker<'_> {
    /// As [`Worker::bundle`], for a source with Preact that stays alive in a page: each of its exports takes what it is called
    /// with and a place of the page.
    ///
    /// # Errors
    /// As [`Worker::bundle`].
    pub fn bundle_alive(&self, program: &Program, cancel: &Cancel) -> Result<String> {
        self.written(
            program,
            &[vendor::MOUNT],
            cancel,
            &format!("stay(exports, {:?});", vendor::MOUNT),
        )
    }

    /// Writes a program whose modules are all found as one text. Its modules are rewritten where they were
    /// compiled: in a process of their own.
    ///
    /// # Errors
    /// `script_module_unavailable` for a module that was not found; `script_source_invalid` for one that waits
    /// before it is whole (`await` outside of functions), and for one that the compiler does not read; the
    /// sandbox's errors.
    pub fn bundle(&self, program: &Program, cancel: &Cancel) -> Result<String> {
        self.written(program, &[], cancel, "finish(exports);")
    }

    /// The modules as functions, with more of those that are carried, and what begins them.
    fn written(
        &self,
        program: &Program,
        more: &[&'static str],
        cancel: &Cancel,
        begin: &str,
    ) -> Result<String> {
        let modules = modules(program, more)?;
        let (addresses, codes): (Vec<_>, Vec<_>) = modules.into_iter().unzip();
        let bodies = match self.answer(&Order::Bodies { codes }, cancel)? {
            Some(Reply::Bodies(bodies)) if bodies.len() == addresses.len() => bodies,
            reply => {
                let why = match reply {
                    Some(Reply::Failed(Failed::Refused(why))) => why,
                    _ => "they are no modules that the compiler made".to_owned(),
                };
                return Err(Error::new(
                    codes::SOURCE_INVALID,
                    "the modules cannot be written as one",
                )
                .why(why));
            }
        };
        let mut text = MODULES.to_owned();
        for (address, body) in addresses.iter().zip(bodies) {
            let address = serde_json::to_string(address).unwrap_or_default();
            text.push_str(&format!(
                "\nbodies.set({address}, function ({EXPORT}, {EXPORT_ALL}) {{\n\"use strict\";\n{body}\n}});\n"
            ));
        }
        text.push_str(&format!("\n{begin}\n"));
        Ok(text)
    }
}

/// Every module by the address that imports name, with its text.
fn modules(program: &Program, more: &[&'static str]) -> Result<Vec<(String, String)>> {
    if let Some(missing) = program.missing() {
        let what = format!("the module {missing} is not here");
        return Err(Error::new(codes::MODULE_UNAVAILABLE, what));
    }
    let mut modules = vec![(SOURCE.to_owned(), program.module().code.clone())];
    modules.extend(program.linked().map(|(address, code)| (address.to_owned(), code.to_owned())));
    for address in vendor::closure(&[program.needs(), more].concat()) {
        let carried = compile::carried(address)
            .ok_or_else(|| Error::new(codes::MODULE_UNAVAILABLE, "a carried module is not here"))?;
        modules.push((address.to_owned(), carried.code));
    }
    Ok(modules)
}
