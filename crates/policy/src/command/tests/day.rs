//! What coding agents run in a day, in several languages, and twins of such lines that hide a command.

use super::finds::none_hidden_in;
use super::*;

/// Every program and command of the shell that the lines name.
const NAMED: &str = ". ./gradlew ./scripts/test.sh ./start.sh ./stop.sh ./target/debug/app ./x [ [[ apt-get awk aws base64 bash break build bundle cargo cat cd cmake column command cp curl cut date declare diff docker dotnet du echo exec exit export f find gh git go gofmt golangci-lint grep head id jobs jq kill kubectl ls lsof make md5sum mix mkdir mktemp mv mvn nc node npm nproc npx nvm openssl paste perl pip pnpm printf protoc ps psql pytest python python3 read redis-cli rg rm rsync sed seq shift sleep sort source sqlite3 ssh stat sudo systemctl tail tar tee terraform test timeout touch tr trap true uv watch wc xargs yarn";

/// Allowed where their programs are, and not denied because of another.
const LINES: &[&str] = &[
    "[ -z $FOO ]",
    "[[ $1 -gt 3 ]]",
    "n=$(ls | wc -l)",
    "n=$(ls | wc -l); [ $n -gt 3 ] && echo many",
    r"echo ${x//\//_}",
    "timeout $T cargo test",
    r#"timeout "$T" cargo test"#,
    r#"declare -A m; m[a]=1; echo "${m[a]}""#,
    r#"declare -A m=([a]=1 [b]=2); echo "${m[a]}""#,
    "jobs -p",
    "kill $(jobs -p)",
    "[[ -f x && -d y ]]",
    "f() { make; }; f",
    r#"f() { make "$1"; }; f all"#,
    "function build { make; }\nbuild",
    "docker build -t app:dev . && docker run --rm -p 8080:80 app:dev",
    "docker compose up -d --build; docker compose logs -f --tail=50 web",
    "docker exec -it app sh -c 'ls /app'",
    "docker ps --format '{{.Names}}' | grep -q app",
    "docker ps -aq | xargs -r docker rm -f",
    "gh pr create --title \"fix: x\" --body \"$(cat <<'EOF'\n## Summary\n- it's fixed\nEOF\n)\"",
    "gh pr view 12 --json title,body -q '.title'",
    "gh run list --limit 5 | awk '{print $1}'",
    "gh api repos/o/r/issues --jq '.[].number'",
    "kubectl get pods -n dev -o json | jq -r '.items[].metadata.name'",
    "kubectl apply -f k8s/ && kubectl rollout status deploy/web",
    r#"kubectl logs -f "$(kubectl get pods -o name | head -1)""#,
    "pnpm install --frozen-lockfile && pnpm -r build",
    "pnpm --filter web test -- --run",
    "yarn workspace app test --watchAll=false",
    "npm run build -- --mode production",
    "npm install --save-dev typescript@^5 @types/node",
    "NODE_ENV=test npx jest --runInBand",
    "pip install -e '.[dev]' && pytest -x -q",
    "pip install -r requirements.txt 2>&1 | tail -3",
    "python -m venv .venv && . .venv/bin/activate && pip install -U pip",
    "uv pip install -r requirements.txt",
    "uv run python -c 'print(1)'",
    "uv sync --all-extras --dev",
    r#"python3 -c "import sys; print(sys.version)""#,
    "python3 - <<'PY'\nimport json, sys\nd = json.load(open(\"a.json\"))\nprint(f\"{d['x']}: {len(d)}\")\nPY",
    "python3 <<EOF\nprint(\"$x\")\nEOF",
    "python manage.py migrate && python manage.py runserver 0.0.0.0:8000 &",
    "go build ./... && go vet ./... && go test -race -cover ./...",
    "go test ./pkg/... -run '^TestFoo$' -v 2>&1 | tee out.log",
    "gofmt -l $(git ls-files '*.go')",
    "make -C build -j$(nproc) all",
    "cmake -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build -j",
    "mvn -q -DskipTests package",
    "./gradlew test --tests 'com.x.*'",
    r#"dotnet test --filter "Name~Foo""#,
    "bundle exec rspec spec/a_spec.rb:12",
    "mix deps.get && mix test",
    "cargo test -p a --lib -- --nocapture 2>&1 | grep -E '^(test|error)' | head -40",
    r#"cargo build 2>&1 | grep -E "^(warning|error)" -A 5 | head -60"#,
    "sed -n '/^fn main/,/^}/p' src/main.rs",
    "sed -i.bak -e 's/a/b/' -e '/^#/d' f && rm f.bak",
    r"sed -E 's/([a-z]+)-([0-9]+)/\2-\1/g' f",
    "awk 'NR>=10 && NR<=20' f",
    r#"awk -v n="$n" '$2 == n { c++ } END { print c+0 }' f"#,
    "cat package.json | jq '.scripts'",
    r#"jq --arg v "$v" '.version = $v' package.json > t && mv t package.json"#,
    "find . -name node_modules -prune -o -name '*.ts' -print",
    "find . -name '*.pyc' -delete",
    r"find src -name '*.rs' -exec grep -l main {} \;",
    "find . -name '*.go' -print0 | xargs -0 gofmt -l",
    "grep -rlZ foo src | xargs -0 sed -i 's/foo/bar/g'",
    r#"for f in $(git diff --name-only); do echo "== $f"; head -5 "$f"; done"#,
    r#"for d in */; do (cd "$d" && [ -f Makefile ] && make test) || exit 1; done"#,
    "for i in $(seq 1 30); do curl -sf http://localhost:8080/health && break; sleep 1; done",
    r#"curl -sS -X POST -H 'Content-Type: application/json' -d '{"a":1}' http://localhost:3000/x | jq ."#,
    r"curl -s -o /dev/null -w '%{http_code}\n' http://localhost:3000",
    "curl -fsSL https://x.test/install.sh -o i.sh && bash i.sh",
    r#"cd "$(git rev-parse --show-toplevel)" && ls"#,
    "git log --oneline origin/main..HEAD | wc -l",
    r"git diff --cached --name-only --diff-filter=ACM | grep '\.py$' | xargs -r black --check",
    "git commit -m \"$(cat <<'EOF'\nfeat: add x\n\nIt's done; see `y` and $z.\nEOF\n)\"",
    r#"git commit -m "feat: add \`x\`""#,
    "git add -A && git commit -q -m wip && git push -u origin HEAD",
    "git branch --merged | grep -v main | xargs -n1 git branch -d",
    "git bisect start HEAD v1.0 && git bisect run make test",
    "git ls-files -z | xargs -0 wc -l | tail -1",
    "git rev-list --count HEAD ^main",
    "git worktree add ../wt -b x",
    "if command -v rg >/dev/null 2>&1; then rg -n foo; else grep -rn foo .; fi",
    "if [ ! -d .venv ]; then python3 -m venv .venv; fi",
    r#"if [[ "$OSTYPE" == linux* ]]; then echo linux; fi"#,
    "if [[ $branch =~ ^feature/ ]]; then echo f; fi",
    r#"if [ "${CI:-}" = true ]; then echo ci; fi"#,
    "(node server.js > s.log 2>&1 &) ; sleep 1",
    "lsof -ti:3000 | xargs kill -9",
    "lsof -ti :3000 | xargs -r kill",
    "ps aux | grep '[n]ode' | awk '{print $2}'",
    "tail -n +2 f.csv | cut -d, -f1,3 | sort -u | column -t -s,",
    "cat > Dockerfile <<'EOF'\nFROM node:20\nRUN npm ci && echo \"$x\"\nEOF",
    "mkdir -p src && cat > src/a.ts <<'EOF'\nexport const x = `a${1}`;\nEOF\nnpx tsc --noEmit src/a.ts",
    "cat <<'EOF' | sqlite3 db.sqlite\nSELECT * FROM t;\nEOF",
    r#"psql "$DATABASE_URL" -c 'select 1'"#,
    r#"sqlite3 a.db "select count(*) from t where x > 3;""#,
    "redis-cli ping | grep -q PONG",
    r#"echo "$(date +%F) done" >> log.txt"#,
    r#"echo -e "a\tb" | tr '\t' '\n'"#,
    r#"echo "exit: $?" ; echo "PIPE: ${PIPESTATUS[0]}""#,
    r"printf '%s\n' a b | paste -sd,",
    "diff -u <(jq -S . a.json) <(jq -S . b.json) || true",
    r#"ls -1 | while read f; do mv "$f" "${f,,}"; done"#,
    "total=0; for n in 1 2 3; do total=$((total + n)); done; echo $total",
    r#"arr=(a b); arr+=(c); echo "${#arr[@]}"; for i in "${!arr[@]}"; do echo "$i ${arr[$i]}"; done"#,
    r#"s="abc"; echo "${s^^}" "${s:0:1}" "${s/a/x}""#,
    r#"url=https://x.test/a; host=${url#*//}; host=${host%%/*}; echo "$host""#,
    r#"tmpdir=$(mktemp -d) && cd "$tmpdir" && npm init -y >/dev/null && npm i x"#,
    "time cargo build --timings",
    "watch -n 5 'kubectl get pods'",
    "timeout 10s bash -c 'until nc -z localhost 5432; do sleep 1; done'",
    "ssh host 'cd app && git pull && make'",
    "rsync -avz --delete dist/ host:/var/www/",
    "tar czf - src | ssh host 'tar xzf - -C /tmp'",
    "sudo systemctl restart nginx && systemctl status nginx --no-pager",
    "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq jq",
    r#"terraform -chdir=infra plan -out=tf.plan -var "env=$ENV""#,
    "aws s3 cp dist/ s3://b/ --recursive --profile dev",
    "make VERSION=$(git describe --tags) release",
    "npm version patch --no-git-tag-version && git diff",
    r#"test -n "$(git status --porcelain)" && echo dirty || echo clean"#,
    "! grep -rn 'dbg!' src",
    "grep -q foo f; rc=$?; [ $rc -eq 0 ] && echo yes",
    "exec 2>&1; make",
    r#"command -v node && node -v || { echo "no node"; exit 1; }"#,
    "source ~/.bashrc && nvm use 20",
    r#". "$HOME/.cargo/env" && cargo build"#,
    r#"cat a.txt | while IFS=$'\t' read -r a b; do echo "$a"; done"#,
    r#"IFS=, read -r a b <<< "$line"; echo "$a""#,
    r#"IFS=',' read -ra parts <<< "$line"; echo "${parts[0]}""#,
    r"echo $'a\nb' | wc -l",
    r#"case "$1" in start) ./start.sh;; stop|halt) ./stop.sh;; *) echo "usage: $0 start|stop" >&2; exit 2;; esac"#,
    r#"until [ "$(docker inspect -f '{{.State.Health.Status}}' db)" = healthy ]; do sleep 1; done"#,
    "trap 'kill $PID 2>/dev/null' EXIT",
    r#"trap 'rm -rf "$tmp"; exit 1' INT TERM"#,
    "./scripts/test.sh 2>&1 | tee /tmp/t.log; exit ${PIPESTATUS[0]}",
    "RUST_LOG=info ./target/debug/app --port 8080 &",
    r#"for t in "${TESTS[@]}"; do go test -run "$t"; done"#,
    r#"read -p "sure? " ans; [ "$ans" = y ] || exit"#,
    "seq 1 5 | xargs -P4 -I{} curl -s localhost/{}",
    "xargs -a list.txt -n1 npm i",
    "find . -type f | sort | xargs md5sum | md5sum",
    "bash -lc 'nvm use && npm test'",
    "stat -c '%s %n' * | sort -n | tail",
    "du -sh -- * | sort -h | tail -5",
    "perl -pi -e 's/a/b/' f",
    "perl -ne 'print if /x/ .. /y/' f",
    r#"node -e "console.log(require('./package.json').version)""#,
    r#"node --input-type=module -e 'import fs from "fs"; console.log(1)'"#,
    "npx -y create-vite@latest app --template react-ts",
    "npx playwright test --grep '@smoke'",
    "protoc --go_out=. --go_opt=paths=source_relative a.proto",
    "openssl req -x509 -newkey rsa:2048 -nodes -keyout k.pem -out c.pem -days 1 -subj '/CN=x'",
    r#"echo "aGk=" | base64 -d"#,
    r"printf 'GET / HTTP/1.0\r\n\r\n' | nc localhost 80",
    "test $(wc -l < f) -lt 100",
    "[ $(git status --porcelain | wc -l) -eq 0 ]",
    r#"echo "${1:?usage: x FILE}""#,
    "cp -r a{,.bak}",
    "echo {a..e} ; touch f{1..3}.txt",
    r"sort -t$'\t' -k2 f",
    r"grep -P '\t' f | cut -d$'\t' -f2",
    r#"cat f | python3 -c "import sys,json; print(json.load(sys.stdin)['a'])""#,
];

/// They set what programs look at, or name a program that nobody knows, so names of programs do not allow them.
const ONLY_NOT_DENIED: &[&str] = &[
    "DATABASE_URL='postgres://u@h/d?sslmode=x' npm test",
    "VERSION=$(git describe) make",
    r#""$HOME/.cargo/bin/cargo" test"#,
    r#""$HOME"/.local/bin/x"#,
    "T=60; timeout $T cargo test",
    "NODE_OPTIONS=--max-old-space-size=4096 npm run build",
    "CGO_ENABLED=0 GOOS=linux go build -o bin/app ./cmd/app",
    r#"RUSTFLAGS="-C target-cpu=native" cargo build --release"#,
    "PORT=3001 node server.js & sleep 2; curl -s localhost:3001; kill %1",
    "node server.js & PID=$!; sleep 2; curl localhost:3000; kill $PID",
    "PGPASSWORD=x psql -h localhost -U u -d d -f schema.sql",
    r#"export PATH="$PATH:$HOME/go/bin"; golangci-lint run"#,
    "while [[ $# -gt 0 ]]; do case $1 in -v) V=1; shift;; *) break;; esac; done",
    r#"LOG=$(mktemp); ./x > "$LOG" 2>&1; grep -c ok "$LOG""#,
    "PYTHONPATH=. python -m pytest tests/test_a.py::TestX::test_y -vv",
    "BROWSER=none npm start",
    "DEBUG=app:* node index.js",
    "OPENAI_API_KEY=sk-x python a.py",
    "TEST_DB=sqlite:///x.db pytest",
    "NEXT_PUBLIC_API_URL=http://localhost:3000/api npm run dev",
    "AWS_REGION=us-east-1 AWS_PROFILE=dev aws sts get-caller-identity",
    "GIT_SEQUENCE_EDITOR=: git rebase -i HEAD~3",
    r#"GIT_COMMITTER_DATE="2024-01-01" git commit --amend --no-edit"#,
    "COMMIT=$(git rev-parse --short HEAD) docker compose build",
    "BUILD_ID=$(date +%s) make image",
];

/// Too much for the reader yet: each counts as any command.
const STILL_ANYTHING: &[&str] = &[
    "for v in 3.10 3.11 3.12; do uv run --python $v pytest; done",
    r#"for f in tests/*.sh; do bash "$f" || echo "FAILED: $f"; done"#,
    "[ -f .env ] && export $(grep -v '^#' .env | xargs)",
    "set -a; . ./.env; set +a; npm start",
    "x=5; let x+=1",
    "ENV=dev make deploy",
    "alias ll='ls -l'",
    "hash -r; which python",
    r"find . -name '*.sh' -exec bash -n {} \;",
    r#"bash -c "echo $x; make""#,
    r#"if [ $(id -u) -ne 0 ]; then exec sudo "$0" "$@"; fi"#,
];

fn is_found(script: &str) -> bool {
    could_run(&argv(&["bash", "-c", script]), &[prefix("zz")])
}

#[test]
fn lines_of_a_day_are_understood() {
    let named: Vec<_> = NAMED.split_whitespace().map(prefix).collect();
    let is_allowed = |script: &str| runs_only(&argv(&["/bin/bash", "-c", script]), &named, false);
    let denied = LINES.iter().chain(ONLY_NOT_DENIED).filter(|script| is_found(script));
    assert_eq!(denied.collect::<Vec<_>>(), [&""; 0]);
    let not_allowed = LINES.iter().filter(|script| !is_allowed(script));
    assert_eq!(not_allowed.collect::<Vec<_>>(), [&""; 0]);
    let allowed = ONLY_NOT_DENIED.iter().filter(|script| is_allowed(script));
    assert_eq!(allowed.collect::<Vec<_>>(), [&""; 0]);
    // The control: another line before any of them is seen.
    let hidden = LINES.iter().filter(|script| !is_found(&format!("zz\n{script}")));
    assert_eq!(hidden.collect::<Vec<_>>(), [&""; 0]);
    let understood = STILL_ANYTHING.iter().filter(|script| !is_found(script));
    assert_eq!(understood.collect::<Vec<_>>(), [&""; 0], "move these up");
}

/// Lines like those above, in which something runs.
const TWINS: &[&str] = &[
    // Values that nobody runs have names of their own.
    "MY_CMD='rm -rf y' make",
    "MY_CMD=$(cat f) make",
    "GIT_SSH_URL='rm -rf y' git fetch",
    "LESSOPEN=$(cat f) less x",
    // A program in a directory that is not known.
    "\"$HOME/bin/rm\" -rf y",
    "\"$HOME\"/bin/rm -rf y",
    "~/bin/rm -rf y",
    "$HOME/bin/x",
    "\"$x\"",
    "\"$x/\"",
    "\"$HOME/\"r*",
    "\"$@/x\"",
    "\"${a[@]}/x\"",
    "\"${b:-$@}/x\"",
    "\"$HOME/bin/env\" rm -rf y",
    "\"$HOME/bin/sh\" -c 'rm -rf y'",
    "env \"$HOME/x\" y",
    // Operands that the script sets, or that the shell sets itself.
    "FOO='a -o -v x[$(rm -rf y)]'; [ -z $FOO ]",
    "read -r FOO < f; [ -z $FOO ]",
    "for FOO in \"$(cat f)\"; do [ -z $FOO ]; done",
    "cd 'a -o -v x[$(rm -rf y)]'; [ -z $PWD ]",
    "echo 'a[$(rm -rf y)]'; echo $((_))",
    "export FOO=\"a -o -v x['\\$(rm -rf y)']\"; bash -c '[ -z $FOO ]'",
    "env \"FOO=a -o -v x['\\$(rm -rf y)']\" bash -c '[ -z $FOO ]'",
    "echo ${FOO:='a[$(rm -rf y)]'}; [ -z $FOO ]",
    // Parameters that somebody gives.
    "set -- 'a[$(rm -rf y)]'; [[ $1 -gt 3 ]]",
    "set -e -- 1 'a[$(rm -rf y)]'; [[ $2 -gt 3 ]]",
    "set - 'a[$(rm -rf y)]'; [[ $1 -gt 3 ]]",
    "f() { [[ $1 -gt 3 ]]; }; f 'a[$(rm -rf y)]'",
    "f() { echo $(($2)); }; f 1 \"$(cat f)\"",
    "f() { g \"$@\"; }; g() { echo $(($1)); }; f 'a[$(rm -rf y)]'",
    "bash -c '[[ $1 -gt 3 ]]' _ 'a[$(rm -rf y)]'",
    // Pipes that print more than a number.
    "n=$(printf 'a[\\44(rm -rf y)]' | cat); echo $((n))",
    "n=$(printf 'a[\\44(rm -rf y)]' | tee /proc/4/fd/1 | wc -l); echo $((n))",
    "n=$(sort -o /proc/4/fd/1 f | wc -l); echo $((n))",
    "n=$(uniq f /proc/4/fd/1 | wc -l); echo $((n))",
    "n=$(git log --output=/proc/4/fd/1 | wc -l); echo $((n))",
    "n=$(cat f || wc -l); echo $((n))",
    "n=$(cat f; wc -l); echo $((n))",
    "n=$(cat f & wc -l); echo $((n))",
    "n=$(cat f\nwc -l); echo $((n))",
    "n=$(cat missing 2>&1 | wc -l); echo $((n))",
    "wc() { cat f; }; n=$(ls | wc -l); echo $((n))",
    // A word that may be none, or several.
    "T='5 rm -rf y'; timeout $T true",
    "T=; timeout $T 5 rm -rf y",
    "false && T=5; timeout $T 5 rm -rf y",
    "timeout $T 5 rm -rf y",
    "timeout $T rm -rf y",
    "timeout \"$T\" 5 rm -rf y",
    "T=-k; timeout \"$T\" 5 5 rm -rf y",
    "timeout \"$@\" true",
    "timeout -k $T 5 rm -rf y",
    "N=5; nice -n $N rm -rf y",
    "jobs -x rm -rf y",
    "jobs $x rm -rf y",
    // Places of arrays.
    "a='x[$(rm -rf y)]'; declare -A m; m[a]=1",
    "a='x[$(rm -rf y)]'; m=([a]=1)",
    "declare -A m=([$(rm -rf y)]=1)",
    "declare -A m; read -r m <<< 'x'; for k in \"${!m[@]}\"; do echo $((k)); done",
    "local -A m; for k in \"${!m[@]}\"; do echo $((k)); done",
    "echo ${!x}",
    "echo ${!x*}",
    "echo ${#!x[@]}",
    // Files that are no files.
    "echo rm -rf y | { . \"$x/stdin\"; }",
    "echo rm -rf y | { . \"$x/0\"; }",
    ". $x/env",
    // A backslash in a pattern.
    "echo \"${x//\\//$(rm -rf y)}\"",
    "echo \"${x//\\}/$(rm -rf y)}\"",
    "echo \"${x//\\'/y}'; rm -rf y #'\"",
    // A name before brackets, behind a redirection, is a program to a plain shell.
    "echo `>f rm -rf()`",
];

#[test]
fn twins_of_honest_lines_stay_denied() {
    none_hidden_in("bash", TWINS);
}

/// Conditions of bash run nothing, and a function runs what its body runs; where it is neither for sure, the name of a
/// program is meant.
#[test]
fn conditions_and_functions_are_allowed_where_they_are_that_for_sure() {
    let allowed = ["make", "true", "[["].map(prefix);
    let check = |shell: &str, script: &str, expected: bool| {
        let words = argv(&[shell, "-c", script]);
        assert_eq!(runs_only(&words, &allowed, false), expected, "{shell}: {script}");
    };
    for (script, in_any_shell) in [
        ("[[ -f x && -d y ]] && make", false),
        ("[[ -n $x || ( a < b && ! -e c ) ]] || make", false),
        ("[[ $x =~ ^feature/ ]] && make", true),
        ("if [[ a && $1 -gt 3 ]]; then make; fi", false),
        ("f() { make; }; f", true),
        ("f() {\n  make\n}\nf all\nf", true),
        ("true\nf()\n{ make; }\nif true; then f; fi; (f) | f", true),
        ("function f { make; }; f", false),
        ("a=(1); a+=(2); make", false),
    ] {
        check("bash", script, true);
        check("sh", script, in_any_shell);
        check("bash", &format!("{script}; zz"), false);
    }
    for script in [
        "A=1 [[ a || zz ]]",
        ">f [[ a || zz ]]",
        "\\[[ a || zz ]]",
        "true [[ a || zz ]]",
        "[[ a || $(zz) ]]",
        "[[ a ]] || zz ]]",
        "[[ x =~ a|zz ]]",
        "[[ a\nzz ]]",
        "[[ a; zz ]]",
        "f; f() { make; }",
        "f() { g; make; }; g() { make; }; f",
        "f() { zz; }; f",
        "false && f() { make; }; make; f",
        "false && f() { make; }; f",
        "false &&\nf() { make; }\nf",
        "true || f() { make; }\nf",
        "if true; then f() { make; }; fi; f",
        "(f() { make; }); f",
        "f() { make; } | true; f",
        "f() { make; } & f",
        "f() { make; } > x; f",
        "true | f() { make; }; f",
        "true & f() { make; }; f",
        "g() { f() { make; }; }; f",
        "f() { make; }; unset -f f; f",
        "f() { make; }; while true; do f; unset f; done",
        "f() { make; }; env f",
        "f() { make; }; command f",
        "f() { make; }; ./f",
        "f() { make; }; PATH=. f",
        "f() { make; }; 'f' || g",
    ] {
        check("bash", script, false);
    }
    // The control of the last ones.
    check("bash", "f() { make; }; 'f' || make", true);
}
