//! Real programs under the profiles: a filter that breaks compilers protects nobody.

use std::fs;
use std::path::{Path, PathBuf};

use glasshouse_sandbox::toolchain::{
    Homes, Inside, TestPlan, ToolMount, detect, environment, test_command, verdict,
};
use glasshouse_sandbox::{Command, Profile, ReadOnlyMount, Sandbox, Status, WritableMount};

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

/// Where Debian puts Go, and where its own archive is unpacked.
pub(crate) const GO: [&str; 2] = ["/usr/bin/go", "/usr/local/go/bin/go"];

#[test]
fn go_builds_and_tests_a_module() {
    let name = "go_builds_and_tests_a_module";
    if !GO.iter().any(|go| Path::new(go).exists()) {
        return skipped(name, "Go is not installed");
    }
    let home = Home::new();
    // A module that another one depends on, as the cache of modules holds it.
    let (repo, modules) = (home.path("repo"), home.path("modules"));
    let add = |at: &Path, name: &str, text: &str| {
        fs::create_dir_all(at.join(name).parent().unwrap()).unwrap();
        fs::write(at.join(name), text).unwrap();
    };
    add(&repo, "go.mod", "module example.org/sum\n\ngo 1.19\n\nrequire example.org/one v1.0.0\n");
    add(
        &repo,
        "sum.go",
        "package sum\n\nimport \"example.org/one\"\n\nfunc Add(a int) int { return a + one.One }\n",
    );
    add(
        &repo,
        "sum_test.go",
        "package sum\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) { if Add(1) != 2 { t.Fatal(\"no\") } }\n",
    );
    add(&modules, "example.org/one@v1.0.0/go.mod", "module example.org/one\n");
    add(&modules, "example.org/one@v1.0.0/one.go", "package one\n\nconst One = 1\n");
    let download = modules.join("cache/download/example.org/one/@v");
    add(&download, "v1.0.0.mod", "module example.org/one\n");
    add(&download, "v1.0.0.info", "{\"Version\":\"v1.0.0\"}");
    add(&download, "list", "v1.0.0\n");
    // What was unpacked is not compared again: this stands for the archive that it came from.
    let archive = "h1:SnD+mqZDbgLC3qNA+9HjUuTvLYzmylKtJdS5VHH8i/I=";
    add(&download, "v1.0.0.ziphash", archive);
    let own = "h1:S7hwdkcfCQ+aBhYl97wpqJQmykENkyuactWIHzTPh1E=";
    let sums = format!("example.org/one v1.0.0 {archive}\nexample.org/one v1.0.0/go.mod {own}\n");
    add(&repo, "go.sum", &sums);
    let homes = Homes { go_modules: modules, ..Homes::new(&home.path("nobody"), |_| None) };
    let tested = Tested::new(&home, &repo, &homes);
    tested.passes_and("sed -i 's/a + one/a - one/' sum.go");
}

/// A repository that tests itself offline, with what is detected for it.
pub(crate) struct Tested {
    sandbox: Sandbox,
    plan: TestPlan,
}

impl Tested {
    pub(crate) fn new(home: &Home, repo: &Path, homes: &Homes) -> Self {
        let at = |text: &str| PathBuf::from(text);
        let inside =
            Inside { workspace: at("/workspace"), cache: at("/cache"), tools: at("/opt/tools") };
        let tools = detect(repo, homes, &inside);
        let mut spec = home.spec("s1");
        spec.overlay.as_mut().unwrap().lowers = vec![repo.to_owned()];
        let cache = home.path("cache");
        fs::create_dir(&cache).unwrap();
        spec.caches = vec![WritableMount { source: cache, target: inside.cache.clone() }];
        let mount = |tool: &ToolMount| ReadOnlyMount {
            source: tool.source.clone(),
            target: tool.target.clone(),
        };
        spec.mounts = tools.iter().map(mount).collect();
        spec.env = environment(&tools, &inside).into_iter().collect();
        let plan = test_command(repo, None).unwrap();
        Self { sandbox: home.host.create(&spec).unwrap(), plan }
    }

    /// Its tests pass, and after a change that breaks it they fail: the control.
    pub(crate) fn passes_and(&self, breaking: &str) {
        for passed in [true, false] {
            let ran = run(&self.sandbox, &Command::new(self.plan.argv.clone()));
            let code = if let Status::Exited(code) = ran.result.status { code } else { -1 };
            let output = format!("{}{}", ran.out, ran.err);
            let found = verdict(self.plan.kind, &self.plan.argv, code, &output);
            assert_eq!((found.ran, found.passed), (true, passed), "{ran:?}");
            shell(&self.sandbox, breaking).ok();
        }
    }
}

/// What Debian's packages of Maven's plugins fill.
pub(crate) const MAVEN_REPOSITORY: &str = "/usr/share/maven-repo";

#[test]
fn maven_builds_and_tests_a_project() {
    let name = "maven_builds_and_tests_a_project";
    let plugin = Path::new(MAVEN_REPOSITORY).join("org/apache/maven/plugins/maven-surefire-plugin");
    if !Path::new("/usr/bin/mvn").exists() || !plugin.exists() {
        return skipped(name, "Maven, or its plugins in a local repository, are not installed");
    }
    let home = Home::new();
    let repo = home.path("repo");
    let add = |name: &str, text: &str| {
        let file = repo.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    let properties = ["source", "target"]
        .map(|name| format!("<maven.compiler.{name}>17</maven.compiler.{name}>"))
        .concat();
    let junit = "<groupId>junit</groupId><artifactId>junit</artifactId><version>4.13.2</version>";
    add(
        "pom.xml",
        &format!(
            "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\
             <modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>\
             <artifactId>sum</artifactId><version>1</version>\
             <properties>{properties}</properties>\
             <dependencies><dependency>{junit}<scope>test</scope></dependency></dependencies>\
             </project>\n"
        ),
    );
    add("src/main/java/Sum.java", "class Sum { static int of(int a, int b) { return a + b; } }\n");
    add(
        "src/test/java/SumTest.java",
        "public class SumTest {\n  @org.junit.Test public void adds() {\n    \
         org.junit.Assert.assertEquals(3, Sum.of(1, 2));\n  }\n}\n",
    );
    let homes = Homes::new(&home.path("nobody"), |_| None);
    // Debian's holds links to files beside it; a user's holds files.
    let maven = home.path("maven");
    let mut copy = std::process::Command::new("cp");
    assert!(copy.arg("-rL").arg(MAVEN_REPOSITORY).arg(&maven).status().unwrap().success());
    let homes = Homes { maven, ..homes };
    let tested = Tested::new(&home, &repo, &homes);
    tested.passes_and("sed -i 's/a + b/a - b/' src/main/java/Sum.java");
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
