//! Plans as WebAssembly: the crate builds for a browser, and the same input gives the same bytes there.
//!
//! For the comparison a small program is built twice, natively and for WASI, and node runs the second
//! one: the same 32-bit code that a browser gets, with nothing but standard input and output.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::place::{Place, Scratch};
use crate::process::{Doing, Failure, answers, capture, run, success};

const PACKAGE: &str = "glasshouse-plan";
const BROWSER: &str = "wasm32-unknown-unknown";
const WASI: &str = "wasm32-wasip1";
/// Below this many plans the comparison says little.
const LEAST_PLANS: usize = 500;

/// Runs a WASI program with the standard input and output of node.
const RUN: &str = "
import { readFileSync } from 'node:fs';
import { WASI } from 'node:wasi';
const wasi = new WASI({ version: 'preview1', stdin: 0, stdout: 1, stderr: 2 });
const module = await WebAssembly.compile(readFileSync(process.argv[2]));
const instance = await WebAssembly.instantiate(module, wasi.getImportObject());
process.exitCode = wasi.start(instance);
";

/// `cargo xtask wasm`.
pub(crate) fn command(place: &Place, arguments: &[String]) -> Result<(), Failure> {
    if let Some(argument) = arguments.first() {
        return Err(Failure::new(format!("`wasm` takes no arguments, not `{argument}`")));
    }
    if !target(BROWSER) {
        println!("skipped: wasm: the target {BROWSER} is not installed");
        return Ok(());
    }
    run(place.cargo().args(["build", "--package", PACKAGE, "--target", BROWSER]))?;
    if !target(WASI) || !answers("node", &["--version"]) {
        println!("skipped: wasm: the comparison needs the target {WASI} and node");
        return Ok(());
    }
    compare(place)
}

/// Whether a target is there, installed if that is possible and allowed.
fn target(name: &str) -> bool {
    let installed = || {
        let mut list = Command::new("rustup");
        let list = capture(list.args(["target", "list", "--installed"]));
        list.is_ok_and(|list| list.lines().any(|line| line == name))
    };
    if !installed()
        && std::env::var_os("GLASSHOUSE_NO_INSTALL").is_none()
        && let Err(failure) = run(Command::new("rustup").args(["target", "add", name]))
    {
        eprintln!("warning: {failure}");
    }
    installed()
}

fn compare(place: &Place) -> Result<(), Failure> {
    let build = || {
        let mut command = place.cargo();
        command.args(["build", "--package", PACKAGE, "--example", "show"]);
        command
    };
    run(&mut build())?;
    run(build().args(["--target", WASI]))?;
    let plans = plans(place.root())?;
    if plans.len() < LEAST_PLANS {
        return Err(Failure::new(format!("only {} plans to compare", plans.len())));
    }
    let scratch = Scratch::new("wasm")?;
    let (input, script) = (scratch.path().join("plans"), scratch.path().join("run.mjs"));
    fs::write(&input, plans.concat()).doing("could not write the plans")?;
    fs::write(&script, RUN).doing("could not write the script")?;
    let shown = |command: &mut Command| {
        let input = File::open(&input).doing("could not read the plans")?;
        let output = command.stdin(input).output().doing("could not show the plans")?;
        success("the example `show`", output.status)?;
        String::from_utf8(output.stdout).doing("the example `show` wrote no text")
    };
    let target = place.target();
    let native = shown(&mut Command::new(target.join("debug/examples/show")))?;
    let wasm = target.join(WASI).join("debug/examples/show.wasm");
    let wasm = shown(Command::new("node").arg("--no-warnings").arg(&script).arg(wasm))?;
    for (number, (native, wasm)) in native.lines().zip(wasm.lines()).enumerate() {
        if native != wasm {
            return Err(Failure::new(format!("line {number} differs:\n{native}\n{wasm}")));
        }
    }
    let (ours, theirs) = (native.lines().count(), wasm.lines().count());
    if ours < plans.len() || ours != theirs {
        let count = plans.len();
        return Err(Failure::new(format!("{ours} and {theirs} lines about {count} plans")));
    }
    println!("{} plans: {} bytes, equal in both", plans.len(), native.len());
    Ok(())
}

/// The plans of the guide and of the conformance cases, one a line.
fn plans(root: &Path) -> Result<Vec<String>, Failure> {
    let mut plans = Vec::new();
    for value in json_files(&root.join("docs/guides/plans"))? {
        plans.push(format!("{value}\n"));
    }
    for cases in json_files(&root.join("crates/plan/tests/cases"))? {
        for case in cases.as_array().into_iter().flatten() {
            let input = &case["input"];
            if input["plan"].is_object() {
                plans.push(format!("{}\n", input["plan"]));
            }
            for node in
                ["node", "root"].map(|name| &input[name]).into_iter().filter(|it| it.is_object())
            {
                let plan = json!({"specVersion": "runtime-plan/v1", "id": "n", "version": 1,
                    "root": node});
                plans.push(format!("{plan}\n"));
            }
        }
    }
    Ok(plans)
}

fn json_files(folder: &Path) -> Result<Vec<Value>, Failure> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).doing(format_args!("could not list {}", folder.display()))? {
        let path = entry.doing("could not list a folder")?.path();
        if path.extension().is_some_and(|it| it == "json") {
            let name = path.display();
            let text = fs::read_to_string(&path).doing(format_args!("could not read {name}"))?;
            files.push(serde_json::from_str(&text).doing(format_args!("could not parse {name}"))?);
        }
    }
    Ok(files)
}
