//! Real programs under the profiles: a filter that breaks compilers protects nobody.

use std::path::{Path, PathBuf};

use glasshouse_sandbox::{Command, Profile, ReadOnlyMount, Sandbox, Status};

use crate::support::*;

fn sandbox(home: &Home, profile: Profile, mounts: &[PathBuf]) -> Sandbox {
    let mut spec = home.spec("s1");
    spec.template.seccomp = profile;
    spec.mounts = mounts
        .iter()
        .map(|path| ReadOnlyMount { source: path.canonicalize().unwrap(), target: path.clone() })
        .collect();
    home.host.create(&spec).unwrap()
}

/// Runs a script if the program it needs is installed on this host.
fn check(sandbox: &Sandbox, program: &str, script: &str, expected: &str) {
    let found = ["/usr/bin", "/usr/local/bin", "/bin"]
        .iter()
        .any(|at| Path::new(at).join(program).exists());
    if !found {
        return skipped(program, "not installed");
    }
    assert_eq!(shell(sandbox, script).ok(), expected, "{program}");
}

#[test]
fn builds_and_tests_run_under_standard() {
    let home = Home::new();
    for profile in [Profile::Standard, Profile::StandardNet] {
        let sandbox = sandbox(&home, profile, &[]);
        check(&sandbox, "sh", "echo a | tr a b; (exit 3) || echo $?", "b\n3\n");
        check(&sandbox, "bash", "bash -c 'diff <(echo a) <(echo a) && echo same'", "same\n");
        check(
            &sandbox,
            "git",
            "git init -q r && cd r && echo x > f && git add f && \
            git -c user.name=a -c user.email=a@b.c commit -qm m && git log --oneline | wc -l",
            "1\n",
        );
        check(
            &sandbox,
            "python3",
            "python3 - <<'P'\n\
            import threading, subprocess, multiprocessing, socket, tempfile, os, pty\n\
            def work(q): q.put(os.getpid() > 1)\n\
            q = multiprocessing.Queue(); p = multiprocessing.Process(target=work, args=(q,)); p.start(); print(q.get()); p.join()\n\
            t = threading.Thread(target=lambda: print('thread')); t.start(); t.join()\n\
            print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout.strip())\n\
            s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); print('loopback')\n\
            print(tempfile.mkdtemp().startswith('/tmp/')); os.openpty(); print('terminal')\nP",
            "True\nthread\nchild\nloopback\nTrue\nterminal\n",
        );
        check(
            &sandbox,
            "node",
            "node -e \"const {Worker}=require('worker_threads');\
            require('http').createServer((q,r)=>r.end('served')).listen(0,function(){\
            require('http').get({port:this.address().port},r=>r.on('data',d=>{console.log(''+d);\
            console.log(require('child_process').execSync('echo child')+'');process.exit()}))})\"",
            "served\nchild\n\n",
        );
        check(
            &sandbox,
            "gcc",
            "echo 'int main(){return 7;}' > m.c && gcc -o m m.c && ./m; echo $?; rm -f m m.c",
            "7\n",
        );
        shell(&sandbox, "rm -rf r").ok();
        sandbox.destroy().unwrap();
    }
}

#[test]
fn cargo_builds_and_tests_a_crate() {
    let toolchain = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default().join(".rustup");
    let Some(bin) = toolchain
        .join("toolchains")
        .read_dir()
        .ok()
        .and_then(|mut entries| Some(entries.next()?.ok()?.path().join("bin")))
    else {
        return skipped("cargo_builds_and_tests_a_crate", "no toolchain below the home directory");
    };
    let home = Home::new();
    let sandbox = sandbox(&home, Profile::Standard, &[toolchain]);
    let mut command = sh("mkdir -p c/src && cd c && \
        printf '[package]\\nname=\"c\"\\nversion=\"0.1.0\"\\nedition=\"2024\"\\n' > Cargo.toml && \
        echo '#[test] fn t() { std::thread::spawn(|| ()).join().unwrap(); }' > src/lib.rs && \
        cargo test --offline -q 2>&1 | grep 'test result'");
    command.env = vec![("PATH".into(), format!("{}:/usr/bin:/bin", bin.display()))];
    let out = run(&sandbox, &command).ok();
    assert!(out.contains("1 passed"), "{out}");
}

#[test]
fn strict_runs_programs_but_no_process_and_no_file() {
    let home = Home::new();
    let sandbox = sandbox(&home, Profile::Strict, &[]);
    let argv = |argv: &[&str]| run(&sandbox, &Command::new(argv.iter().copied()));
    assert_eq!(argv(&["cat", "base.txt"]).ok(), "base\n");
    if Path::new("/usr/bin/python3").exists() {
        let script = "import threading, math; t = threading.Thread(target=lambda: print('thread')); t.start(); t.join(); print(math.pi > 3)";
        assert_eq!(argv(&["/usr/bin/python3", "-c", script]).ok(), "thread\nTrue\n");
        let script = "import socket; socket.socket(socket.AF_INET)";
        assert!(argv(&["/usr/bin/python3", "-c", script]).err.contains("PermissionError"));
    }
    if Path::new("/usr/bin/node").exists() {
        assert_eq!(
            argv(&["/usr/bin/node", "-e", "console.log([1,2].map(x=>x*2).join())"]).ok(),
            "2,4\n"
        );
    }
    assert_ne!(argv(&["sh", "-c", "(echo child)"]).result.status, Status::Exited(0));
    assert_ne!(argv(&["sh", "-c", "echo x > file"]).result.status, Status::Exited(0));
    assert_ne!(argv(&["touch", "file"]).result.status, Status::Exited(0));
    assert_ne!(argv(&["rm", "base.txt"]).result.status, Status::Exited(0));
    assert!(!home.path("s1/upper/file").exists() && !home.path("s1/upper/base.txt").exists());
}
