//! Lines as agents and developers write them.

use super::*;

/// Every program and command of the shell that the lines name.
const NAMED: &str = ": [ [[ awk basename break cargo cat cd chmod command continue cp curl cut date diff dirname du echo \
    eval exit export false find git go grep head id jq kill ls make mkdir mktemp mv nice node npm npx nproc \
    printf ps pwd pytest python3 read readonly return rm rustc sed seq set sh shift shopt sleep sort stat sum \
    tail tar tee test timeout touch tr trap true tsc type uname uniq unset wait wc which xargs xz local env";

/// A line is allowed where its programs are, and not denied because of another; answers those that are not.
fn not_understood<'s>(scripts: &[&'s str]) -> Vec<(&'s str, &'static str)> {
    let named: Vec<_> = NAMED.split_whitespace().map(prefix).collect();
    let mut wrong = Vec::new();
    for script in scripts {
        let words = argv(&["bash", "-c", script]);
        if !runs_only(&words, &named, false) {
            wrong.push((*script, "not allowed"));
        }
        if could_run(&words, &[prefix("zz")]) {
            wrong.push((*script, "taken for anything"));
        }
        // The control: nothing is allowed that is not named.
        if runs_only(&words, &[prefix("zz")], false) {
            wrong.push((*script, "allowed without its names"));
        }
    }
    wrong
}

#[test]
fn plain_lines() {
    let wrong = not_understood(&[
        "cargo test 2>&1 | tail -20",
        "cd x && make -j4",
        "ls -la; git status --short",
        "npm ci && npm test",
        "python3 -m pytest -q tests/",
        "grep -c x f || true",
        "find . -name '*.rs' | xargs wc -l",
        "git log --oneline -5 --format='%h %s'",
        "git diff --stat HEAD~1 -- src/",
        "git commit -am \"fix: don't read past the end (#12)\"",
        "git show HEAD:src/main.rs | head -50",
        "git stash && git checkout -b try; git stash pop",
        "cargo build --release > build.log 2>&1; tail -5 build.log",
        "cargo clippy --all-targets -- -D warnings",
        "RUST_LOG=debug RUST_BACKTRACE=1 cargo test",
        "LC_ALL=C sort f | uniq -c | sort -rn | head",
        "cat > f <<'EOF'\nfn main() { println!(\"$(x)\"); }\nEOF",
        "cat <<EOF > f\nhello $USER\nEOF",
        "cat <<-EOF\n\tindented\n\tEOF",
        "mkdir -p a/b/{c,d} && touch a/b/c/f",
        "rm -f *.o build/**/*.tmp",
        "echo \"done: $?\"",
        "echo 'a b' \"c;d\" e\\ f",
        "printf '%s\\n' \"$x\" \"$y\"",
        "grep -rn 'alpha\\|beta' --include='*.rs' src | head -20",
        "sed -n '10,20p' src/lib.rs",
        "sed -i 's/foo/bar/g' src/*.rs",
        "awk '{ sum += $1 } END { print sum }' f",
        "awk -F: '$3 > 100 {print $1}' f",
        "jq -r '.items[] | .name' f.json",
        "tar czf out.tar.gz dir && ls -lh out.tar.gz",
        "tar -xJf a.tar.xz -C dir",
        "test -f a && echo yes || echo no",
        "[ -d node_modules ] || npm ci",
        "(cd sub && make)",
        "{ echo a; echo b; } > f",
        "sleep 1 & wait",
        "make -j\"$(nproc)\"",
        "make \\\n  --silent \\\n  all",
        "echo a # and a comment: rm -rf /",
        "# first\n# second\nmake",
        "timeout 60 cargo test \"$name\"",
        "find . -type f -exec wc -l {} +",
        "find \"$dir\" -name '*.py' -not -path '*/venv/*'",
        "xargs -I{} cp {} out < list",
        "diff <(sort a) <(sort b)",
        "tee log < in >/dev/null",
        "which node && node --version",
        "command -v cargo > /dev/null || exit 1",
        "type git",
        "echo $((1 + 2 * 3))",
        "npx tsc --noEmit",
        "go test ./... -run 'TestA|TestB' -count=1",
        "du -sh target | cut -f1",
        "ls | wc -l",
        "cat a b c | tr -d '\\r' > d",
        "nice -n 10 make all",
        "env RUST_BACKTRACE=1 cargo test",
        "sh -c 'make all'",
        "python3 - <<'EOF'\nimport os\nprint(os.environ['HOME'])\nEOF",
    ]);
    assert_eq!(wrong, []);
}

#[test]
fn scripts() {
    let wrong = not_understood(&[
        "for f in *.rs; do echo \"$f\"; done",
        "if [ -f a ]; then make; fi",
        "if ! git diff --quiet; then echo dirty; else echo clean; fi",
        "x=$(git rev-parse HEAD); echo \"$x\"",
        "x=`git rev-parse HEAD`; echo $x",
        "while read -r line; do echo \"$line\"; done < f",
        "while IFS= read -r line; do echo \"$line\"; done < <(git ls-files)",
        "git ls-files | while IFS=: read -r a b; do echo \"$a $b\"; done",
        "i=0; while [ $i -lt 3 ]; do i=$((i+1)); done",
        "for i in 1 2 3; do echo $((i * 2)); done",
        "for i in {1..10}; do sleep $((i * 2)); done",
        "for i in $(seq 1 5); do echo \"$((i - 1))\"; done",
        "for ((i = 0; i < 3; i++)); do echo $i; done",
        "export RUST_LOG=debug; cargo run",
        "set -euo pipefail\ncargo build\ncargo test",
        "set -e; set -o pipefail; make | tee log",
        "set -x; make; set +x",
        "trap 'rm -f \"$tmp\"' EXIT",
        "tmp=$(mktemp); trap 'rm -f \"$tmp\"' EXIT INT; sort f > \"$tmp\"; mv \"$tmp\" f",
        "case $x in a|b) make;; *) echo other ;; esac",
        "case \"$(uname)\" in Linux) echo l;; Darwin) echo d;; esac",
        "dir=$(dirname \"$0\"); cd \"$dir\" && pwd",
        "base=${f##*/}; echo ${base%.rs} ${x:-none} ${#base}",
        "name=${f%.*}; mv \"$f\" \"${name}.txt\"",
        "files=(a b c); for f in \"${files[@]}\"; do cat \"$f\"; done",
        "files=($(git ls-files)); echo ${#files[@]} ${files[0]}",
        "start=$(date +%s); make; echo \"took $(( $(date +%s) - start ))s\"",
        "n=$(wc -l < f); if [ \"$n\" -gt 10 ]; then echo long; fi",
        "n=$(wc -l < f); echo $((n + 1))",
        "sleep 5 & pid=$!; kill \"$pid\"; wait \"$pid\"",
        "ok=0; make && ok=1; [ $ok -eq 1 ]",
        "until curl -s localhost:80; do sleep 1; done",
        "if [[ -n \"$x\" ]]; then echo \"$x\"; fi",
        "[ \"$a\" = \"$b\" ] && echo same",
        "[ -n \"$a\" -a ! -e \"$b\" ] || exit 1",
        "[ $# -eq 0 ] && exit 1; shift; echo \"$@\"",
        "if [ \"$(git status --porcelain)\" ]; then echo dirty; fi",
        "count=0; for f in *.c; do count=$((count + 1)); done; echo $count",
        "for f in a b; do [ -e \"$f\" ] || continue; cat \"$f\"; done",
        "while true; do make && break; sleep 1; done",
        "unset x; readonly y=1; echo $y",
        "shopt -s nullglob; for f in *.x; do echo $f; done",
        "eval 'make all'",
        "max=3; n=$max; while [ $n -gt 0 ]; do n=$((n - 1)); done",
    ]);
    assert_eq!(wrong, []);
}

/// They set variables that the programs look at, or call functions: nobody allows these by names of programs, and no
/// rule on another program denies them.
#[test]
fn no_other_rule_denies_them() {
    let mut wrong = Vec::new();
    for script in [
        "export PATH=\"$HOME/.cargo/bin:$PATH\"; cargo build",
        "PYTHONPATH=src pytest -q",
        "CC=clang CFLAGS='-O2 -g' make",
        "RUSTFLAGS='-D warnings' cargo build",
        "EDITOR=true git commit --amend",
        "GIT_PAGER=cat git log",
        "ROOT=$(git rev-parse --show-toplevel); cd \"$ROOT\"",
        "VERSION=1.2; export VERSION; make",
        "f() { local x=$1; echo \"$x\"; }; f a",
        "say() { echo \"$@\" >&2; }\nsay hello",
        ". ./venv/bin/activate && pytest",
        "source .env; node app.js",
        "for dir in */; do (cd \"$dir\" && git pull); done",
        "OUT=out; mkdir -p \"$OUT\"; cp a \"$OUT/\"",
        "SCRIPT_DIR=\"$(cd \"$(dirname \"$0\")\" && pwd)\"; cd \"$SCRIPT_DIR\"",
        "git -c user.name=\"A B\" -c core.pager=cat log",
        "git rebase --onto main a b",
        "ssh-keygen -lf key.pub",
        "tar --exclude=target -czf a.tgz .",
        "gcc -Wall -o a a.c && ./a",
        "docker run --rm -v \"$PWD:/w\" image make",
        "sudo apt-get install -y jq",
        "time make",
        "bash run.sh a b",
        "bash -euo pipefail -c 'make | tee log'",
        "uv run pytest -k 'a or b'",
        "printf \"count: $n\\n\"",
        "fd -e rs src; fd '\\.py$' -x wc -l",
        "mapfile -t files < <(git ls-files); echo \"${files[@]}\"",
        "npx eslint 'src/**/*.ts'",
        "exec > >(tee log) 2>&1; make",
        "while getopts ab: o; do case $o in a) x=1;; esac; done; shift $((OPTIND - 1))",
        "nohup node server.js > log 2>&1 &",
        "exec node app.js \"$@\"",
    ] {
        if could_run(&argv(&["bash", "-c", script]), &[prefix("zz")]) {
            wrong.push(script);
        }
    }
    assert_eq!(wrong, [""; 0]);
}
