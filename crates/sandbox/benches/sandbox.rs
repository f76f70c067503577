//! What isolation costs: medians of interleaved pairs in one run, against the same program started
//! raw, in the barest sandbox there is, and by other sandboxes. One row a promise.
//!
//! `cargo bench -p glasshouse-sandbox --bench sandbox [-- PAIRS]`
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "measure/bare.rs"]
mod bare;
mod measure;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use glasshouse_sandbox::{
    Cancel, Command, HostConfig, OverlayDirs, Sandbox, SandboxHost, SandboxSpec, Status,
    TemplateName,
};

use self::bare::{Bare, Program};
use self::measure::{Bound, interleaved, micros, report, row, samples};

/// Statically linked, so that the dynamic loader is no part of what is measured.
const STATIC: &[&str] = &["/usr/bin/busybox", "true"];

/// Stands in for it where it is not installed.
const DYNAMIC: &[&str] = &["/usr/bin/true"];

/// Pairs unless told otherwise: enough for a steady median in seconds.
const PAIRS: usize = 500;

/// Pairs with something that takes a good part of a second.
const SLOW_PAIRS: usize = 20;

fn main() {
    let bench = Bench::new();
    let undisturbed = bench.live();
    bench.whole(undisturbed);
    bench.barest();
    bench.bubblewrap();
    bench.podman();
    bench.overlay();
    bench.at_once();
}

struct Bench {
    pairs: usize,
    home: tempfile::TempDir,
    host: SandboxHost,
    spec: SandboxSpec,
    argv: &'static [&'static str],
}

impl Bench {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let program = PathBuf::from(env!("CARGO_BIN_EXE_glasshouse-sandboxd"));
        let config = HostConfig { program, home: home.path().to_owned() };
        let host = SandboxHost::start(config).unwrap();
        let mut spec = SandboxSpec::new("bench", TemplateName::CodeExecutor.template());
        spec.overlay = Some(layers(&home.path().join("bench")));
        let argv = if Path::new(STATIC[0]).exists() { STATIC } else { DYNAMIC };
        Self { pairs: samples(PAIRS), home, host, spec, argv }
    }

    /// Answers what a raw start takes while no sandbox comes or goes, in microseconds.
    fn live(&self) -> f64 {
        let live = self.host.create(&self.spec).unwrap();
        println!("level {}, {} pairs, program {:?}", live.attestation(), self.pairs, self.argv);
        let program = Program::new(self.argv);
        let (raw, inside) = interleaved(self.pairs, || program.run(), || run(&live, self.argv));
        report("command in a live sandbox", &raw, &inside, Bound::Ratio(1.2));
        report("command in a live sandbox, added", &raw, &inside, Bound::Added(500.0));
        live.destroy().unwrap();
        micros(&raw, 0.5)
    }

    fn make_run_destroy(&self) {
        let sandbox = self.host.create(&self.spec).unwrap();
        run(&sandbox, self.argv);
        sandbox.destroy().unwrap();
    }

    fn whole(&self, undisturbed: f64) {
        let program = Program::new(self.argv);
        let (raw, whole) = interleaved(self.pairs, || program.run(), || self.make_run_destroy());
        report("create, run, destroy", &raw, &whole, Bound::Ratio(5.0));
        // The kernel takes namespaces down behind the scenes, which slows the raw start beside it:
        // the ratio to an undisturbed one belongs to an honest answer.
        println!(
            "  undisturbed raw start {undisturbed:.0} us: {:.2} times",
            micros(&whole, 0.5) / undisturbed
        );
        report("new sandbox, added", &raw, &whole, Bound::Added(3000.0));
        self.stages();
    }

    /// Where the time of a sandbox goes, as its owner sees it.
    fn stages(&self) {
        let mut stages: [Vec<Duration>; 3] = Default::default();
        for _ in 0..self.pairs {
            let started = Instant::now();
            let sandbox = self.host.create(&self.spec).unwrap();
            let made = Instant::now();
            run(&sandbox, self.argv);
            let ran = Instant::now();
            sandbox.destroy().unwrap();
            for (stage, took) in stages.iter_mut().zip([made - started, ran - made, ran.elapsed()])
            {
                stage.push(took);
            }
        }
        let [create, run, destroy] = stages.each_ref().map(|stage| micros(stage, 0.5));
        println!("  of it create {create:.0} us, run {run:.0}, destroy {destroy:.0}");
    }

    /// What isolation of this kind costs at least, whoever builds it.
    fn barest(&self) {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: beside the barest sandbox: only root can make one");
            return;
        }
        let place = self.home.path().join("bare");
        layers(&place);
        let bare = Bare::new(&place, self.argv);
        let (bare, whole) = interleaved(self.pairs, || bare.run(), || self.make_run_destroy());
        report("create, run, destroy beside the barest sandbox", &bare, &whole, Bound::Ratio(2.0));
    }

    fn bubblewrap(&self) {
        let bwrap = || {
            let status = std::process::Command::new("bwrap")
                .args([
                    "--unshare-all",
                    "--ro-bind",
                    "/usr",
                    "/usr",
                    "--symlink",
                    "usr/lib",
                    "/lib",
                ])
                .args(["--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev"])
                .args(self.argv)
                .status();
            status.is_ok_and(|status| status.success())
        };
        if !bwrap() {
            println!("skipped: faster than bubblewrap: bwrap does not run here");
            return;
        }
        let (theirs, ours) =
            interleaved(self.pairs, || assert!(bwrap()), || self.make_run_destroy());
        report("create, run, destroy beside bubblewrap", &theirs, &ours, Bound::Ratio(1.0));
    }

    /// The image is the host's own programs: what is measured is not the image.
    fn podman(&self) {
        let podman = || {
            let status = std::process::Command::new("podman")
                .args(["run", "--rm", "--network=none", "--ulimit", "nofile=1024:1024"])
                .args(["--ulimit", "nproc=1024:1024", "--rootfs", "/:O"])
                .args(self.argv)
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .status();
            status.is_ok_and(|status| status.success())
        };
        if !podman() {
            println!("skipped: beside podman: it does not run here");
            return;
        }
        let pairs = self.pairs.min(SLOW_PAIRS);
        let (theirs, ours) = interleaved(pairs, || assert!(podman()), || self.make_run_destroy());
        report("create, run, destroy beside podman", &theirs, &ours, Bound::Ratio(0.02));
    }

    /// What the workspace's overlay adds to a sandbox: the same one with a plain temporary workspace.
    fn overlay(&self) {
        let plain = SandboxSpec { overlay: None, ..self.spec.clone() };
        let whole = |spec: &SandboxSpec| self.host.create(spec).unwrap().destroy().unwrap();
        let (without, with) = interleaved(self.pairs, || whole(&plain), || whole(&self.spec));
        report("overlay of a new sandbox, added", &without, &with, Bound::Added(1000.0));
    }

    /// How many sandboxes a second are made, used and destroyed when many want one at once.
    fn at_once(&self) {
        let each = self.pairs.div_ceil(OWNERS);
        let started = Instant::now();
        std::thread::scope(|scope| {
            for owner in 0..OWNERS {
                scope.spawn(move || {
                    let name = format!("owner{owner}");
                    let template = TemplateName::CodeExecutor.template();
                    let mut spec = SandboxSpec::new(&*name, template);
                    spec.overlay = Some(layers(&self.home.path().join(name)));
                    for _ in 0..each {
                        let sandbox = self.host.create(&spec).unwrap();
                        run(&sandbox, self.argv);
                        sandbox.destroy().unwrap();
                    }
                });
            }
        });
        #[allow(clippy::cast_precision_loss, reason = "hundreds")]
        let rate = (OWNERS * each) as f64 / started.elapsed().as_secs_f64();
        row(&format!("{OWNERS} at once: {rate:.0} a second, 20 wanted;"), 20.0 / rate, 1.0);
    }
}

/// Owners that make sandboxes at a time.
const OWNERS: usize = 20;

fn layers(at: &Path) -> OverlayDirs {
    let dirs = OverlayDirs {
        lowers: vec![at.join("base")],
        upper: at.join("upper"),
        work: at.join("work"),
    };
    for path in [&dirs.lowers[0], &dirs.upper, &dirs.work] {
        std::fs::create_dir_all(path).unwrap();
    }
    dirs
}

fn run(sandbox: &Sandbox, argv: &[&str]) {
    let command = Command::new(argv.iter().copied());
    let result = sandbox.run(&command, &mut |_, _| {}, &Cancel::new().unwrap()).unwrap();
    assert_eq!(result.status, Status::Exited(0));
}
