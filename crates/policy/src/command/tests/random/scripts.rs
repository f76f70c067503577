//! Scripts at random: tricky lines inside one another, joined, and bent a little.

/// Numbers that are the same in every run.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn roll(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % most.max(1)
    }

    fn pick<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.roll(of.len())]
    }
}

/// What is at the heart of a script: commands, values, and names.
const HEARTS: &[&str] = &[
    "zz",
    "zz y",
    "'zz'",
    "z\\z",
    "z'z'",
    "\"zz\" y",
    "$x",
    "$1",
    "\"$@\"",
    "x",
    "1",
    "zz 1",
    "x=zz",
    "a[$(zz)]",
    "'a[$(zz)]'",
    "$(zz)",
    "`zz`",
    "\"$(zz)\"",
    "\"`zz`\"",
    "<(zz)",
    "$'zz'",
    "${x}",
    "${x:-zz}",
    "{zz,y}",
    "zz;",
    "zz\n",
    "# zz",
    "echo zz",
    "x=1",
    "i=1",
    "$((x))",
    "'x; zz'",
    "'$(zz)'",
    "E",
    "zz=1",
    "x='zz y'",
    "*",
    "\\",
    "zz)",
    "esac",
    "x=$(zz)",
    "[zz]",
    "zz()",
    "\\$(zz)",
    "'zz '",
    "A=1 zz",
    "${x/y/zz}",
    "!",
    "zz|zz",
    "a=(zz y)",
    "1/0",
    "$((1/0))",
    "echo $((09))",
    "E\\\n",
    "\nE\n",
    ": '\n\nzz\n'",
];

/// What stands around it; the first `@` is the place, a second one another script.
const AROUND: &[&str] = &[
    "@",
    "$(@)",
    "`@`",
    "\"@\"",
    "'@'",
    "\"$(@)\"",
    "\"`@`\"",
    "eval '@'",
    "eval \"@\"",
    "eval @",
    "cat <<E\n@\nE",
    "cat <<'E'\n@\nE",
    "cat <<-E\n\t@\n\tE",
    "cat <<E; @\nx\nE",
    "cat <<E\nx\nE\n@",
    "f() { @; }; f",
    "f() { @; }",
    "f() ( @ )",
    "function f { @; }; f x",
    "case x in x) @;; esac",
    "case x in y|x) @;; *) @; esac",
    "case @ in (*) @;; esac",
    "case x in @) @;; esac",
    "if @; then @; fi",
    "if :; then @; else @; fi",
    "while @; do @; break; done",
    "until @; do break; done",
    "for x in @; do $x; done",
    "for x in @; do @; done",
    "for x in @; do echo $x; done",
    "for ((i=0; i<1; i++)); do @; done",
    "x=@; $x",
    "x=@; @",
    "x='@'; $x",
    "x='@'; eval \"$x\"",
    "x='@'; echo $((x))",
    "x='@'; echo $(($x))",
    "x='@'; [ $x ]",
    "x='@'; [[ $x -eq 1 ]]",
    "x='@'; [[ -n $x && @ ]]",
    "x='@'; echo ${a[x]}",
    "x='@'; test -v \"$x\"",
    "x='@'; echo ${x@P}",
    "x='@'; a=(\"$x\" @)",
    "x='@'; echo ${!x}",
    "x='@'; declare -i y; y=$x",
    "x='@'; export x; @",
    "x='@'; printf -v y %s \"$x\"; $y",
    "x='@'; read y <<< \"$x\"; @",
    "x='@'; read y <<< \"$x\"; echo $((y))",
    "x='@'; set -- $x; $1",
    "x='@'; set -- \"$x\"; echo $(($1))",
    "x='@'; echo \"${x:-@}\"",
    "x='@'; y=$x; [ $y = @ ]",
    "x='@'; local x; @",
    "x=@ y=@ @",
    "x+=@; $x",
    "x=(@); ${x[0]}",
    "x=(@); \"${x[@]}\"",
    "x=([0]=@); @",
    "x[@]=1; @",
    "x[0]='@'; echo $((x))",
    "mapfile -t x <<< '@'; $x",
    "echo $((@))",
    "echo $((1 + (@)))",
    "((@))",
    "((@)) && @",
    "((x=1)); @",
    "echo $[@]",
    "echo ${x:-@}",
    "echo \"${x:-@}\"",
    "echo ${x:=@}; $x",
    "echo ${x:=@}; echo $((x))",
    "echo ${x:+@}",
    "echo ${x#@}",
    "echo ${x//@/y}",
    "echo \"${x%@}\"",
    "echo ${#x}; @",
    "echo ${x:@}",
    "${x:-@}",
    "[[ @ ]]",
    "[[ @ && @ ]]",
    "[[ @ =~ @ ]]",
    "[[ @ -eq @ ]]",
    "[[ -v @ ]]",
    "[ @ ]",
    "[ @ = @ ]",
    "test @",
    "trap '@' EXIT",
    "trap '@' DEBUG; :",
    "trap -- \"@\" EXIT",
    "(@)",
    "(@); @",
    "{ @; }",
    "@ | cat",
    "cat | @",
    "@ & wait",
    "! @",
    "time @",
    "time -p @",
    "# @\n@",
    "@ # @",
    "@ # @\n@",
    ": '@'",
    ": \"@\"",
    ": $'@'",
    ": $\"@\"",
    "\\\n@",
    "@ \\\n@",
    ": \\\n@",
    "@\\\n@",
    "printf '%s' '@'",
    "printf '@'",
    "printf -v x '@'; $x",
    "read x <<< '@'",
    "read x <<< '@'; $x",
    "export x='@'",
    "export \"x=@\"",
    "export x=@; $x",
    "local x=@",
    "declare x='@'; $x",
    "declare -a x='@'",
    "declare -A x; x[@]=1",
    "readonly x=@; @",
    "typeset x; @",
    "unset x; @",
    "echo @ > f; @",
    "cat < <(@)",
    "@ > f 2>&1",
    "@ >&2",
    "> f @",
    "2>f @",
    "@ &> f",
    "@ &>f x",
    "<<< '@' cat",
    "{x}>f @",
    "x=1 @",
    "cat <(@)",
    "echo <(@) >(@)",
    "exec @",
    "exec 3>f; @",
    "command @",
    "command -v @",
    "builtin @",
    "env @",
    "env x=1 @",
    "env -S '@'",
    "env -i @",
    "GIT_EDITOR='@' git @",
    "GIT_EDITOR=\"@\" git zz",
    "export GIT_EDITOR='@'; git zz",
    "x='@'; nice -n $x @",
    "x='5 zz'; env -u $x @",
    "exec -a $x @",
    "stdbuf -o $x @",
    "env $x @",
    "T=@; timeout $T @",
    "T=5; timeout \"$T\" @",
    "timeout $T @",
    "x=@; \"$x/zz\"",
    "\"$x\"@",
    "git -c core.editor='@' x",
    ">&@",
    "<&@",
    "f() { $1; }; f @",
    "f() { echo $(($1)); }; f @",
    "[[ @ || @ ]] || @",
    "$(cat <<E\n@\nE@)\n@\nE\n)",
    "env \"x=1 + a['\\$(@)']\" bash -c '((x++))'",
    "export x=\"a['@']\"; bash -c 'x=1; @; echo $((x))'",
    "set -T; trap '@' DEBUG; x=$(nproc); echo $((x))",
    "set -E; trap \"@\" ERR; x=$(wc -l); echo $((x))",
    "getopts -- a x @",
    "time -p\\\n @",
    "(case x in esac\\\n @ ) ; :\nesac )",
    "case x in y) ;; esac\\\n @",
    "UID=@ sh -c 'echo $((UID))'",
    "x=$(@ | wc -l); [ $x -gt 1 ]",
    "x=$(ls | @); echo $((x))",
    "[[ @ ]] || @ ]]",
    "function f { @; }; f",
    "f() { @; }; f | @",
    "[ -z $FOO ] @",
    "FOO=@; [ -z $FOO ]",
    "x=([@]=@); @",
    "for i in \"${!x[@]}\"; do echo $((i)); done",
    "nice @",
    "nice -n 5 @",
    "timeout 1 @",
    "timeout $x @",
    "xargs @",
    "echo '@' | xargs @",
    "echo y | xargs -I{} @",
    "sh -c '@'",
    "bash -c \"@\"",
    "sh -ec '@' @",
    "bash -c '$1' x @",
    "echo '@' | sh -c '@'",
    "set -- @; $1",
    "set -- @; \"$@\"",
    "set -e; @",
    "set -o pipefail; @",
    "set -x; @",
    "shift; @",
    "getopts a x; @",
    "shopt -s lastpipe; @",
    "echo @ | read x; $x",
    "cd x; @",
    "type @",
    "pwd | @",
    "let @",
    "alias x=@\nx",
    "coproc @",
    "select x in @; do @; done",
    "echo {@,@}",
    "echo {1..3}; @",
    "x=~@; @",
    "echo \"\\$(@)\"",
    "echo \"\\`@\\`\"",
    "echo '\\'@",
    "echo \\'@\\'",
    "echo \\\"@\\\"",
    "echo \\`@\\`",
    "echo $@",
    "PS4='@'; set -x; :",
    "IFS=@; $x",
    "PATH=@; @",
    "BASH_ENV=@ sh -c @",
    "GIT_EDITOR='@' true",
    "A='@' B=@ true",
    "return @",
    "break @",
    "exit @",
    "@ && @ || @",
    "@; @;",
    "@\n@",
    "@;@",
    "@ | @ |& @",
    "@@",
    "@ @",
    "@'@'",
    "@\"@\"",
    "a() { @; }; b() { a; }; b",
    "f() if @; then @; fi; f",
    "f()\n{ @; }\nf",
    "[ -z $x ] && @",
    "[[ $1 -gt 3 ]] || @",
    "x=$(@ | wc -l); echo $((x))",
    "x=$(wc -l < f); echo $((x)); @",
    "x=$(seq 1 3); @",
    "while read -r x; do @; done <<E\n@\nE",
    "while read x; do $x; done < <(echo '@')",
    "cat <<a <<b\n@\na\n@\nb\n@",
    "$(cat <<E\n@\nE\n)",
    "`cat <<E\n@\nE\n`",
    "cat <<\"E\"\n@\nE",
    "cat <<\\E\n@\nE",
    "cat <<E\n@\\\nE\n@\nE",
    "cat <<E | @\n@\nE",
    "cat <<E && @\n@\nE",
    "x=\"$(cat <<E\n@\nE\n)\"; @",
    "echo \"${x:-'@'}\"",
    "echo ${x:-\"@\"}",
    "echo \"$(echo \"@\")\"",
    "echo `echo \\`@\\``",
    "case `@` in *) @;; esac",
    "for x in \"$(@)\"; do @; done",
    "cat <<E\nE\\\n@\nE",
    "cat <<E\n@\\\n\nzz\nE\n",
    "cat <<-E\n\t@\\\n@\nE",
    "cat <<E\n@\\\n@\\\n@\nE",
    "x=$(cat <<E\nE@\\\n@\nE\n)",
    "while read x; do :; done <<E\nE\\\n@\nE",
    "cat <<E; a=(\n@\n)\n@",
    "cat <<E; a=(\nE\n)\n@\n",
    "cat <<E; declare a=(@\n@)\n@\nE",
    "@; zz() { echo; }\nzz",
    "@; zz() { echo; }\n@",
    "echo $((@)); zz() { :; }\nzz",
    "x=@; zz() { :; }\nzz",
    "echo @; zz() { @; }; zz",
    "@ && zz()\n{ :; }\nzz",
    "zz() { @; }; @; zz",
];

/// What is put somewhere.
const BITS: &[&str] = &[
    " ", "\n", ";", "&", "|", "(", ")", "{", "}", "[", "]", "<", ">", "'", "\"", "`", "\\", "$",
    "#", "!", "=", "*", "+", "-", ",", ":", "?", "@", "%", "^", "x", "zz", "1", "\t", "\\\n",
    " \\\n", "$(", "${", "$((", "))", "$'", "$\"", "<<E\n", "\nE\n", "<<'E'\n", "<<-E\n", "<<<",
    "&&", "||", ";;", ";&", "|&", "&>", ">&", "2>&1 ", "<(", ">(", " in ", " do ", " done ",
    " then ", " fi ", " esac ", "if ", "case ", "for ", "while ", "{ ", " }", "((", "[[ ", " ]]",
    "[ ", " ]", "x=", "x+=", "a[", "]=", "=(", "# ", " # ", "\n#", "! ", "f()", "time ", "eval ",
    "$x", "\"$x\"", "$1", "$@", "$*", "$#", "$?", "$$", "$!", "${x", ":-", "##", "%%", "é", "\r",
    "\u{a0}", "{x}>f ", "-eq ", "-v ", "; zz", "\nzz\n", " zz ", "-", "--", "~", "=~",
];

/// A script.
pub(super) fn script(dice: &mut Dice) -> String {
    let mut text = nested(dice, 0);
    for _ in 0..dice.roll(3) {
        let joiner = dice.pick(&["; ", "\n", " && ", " | ", " ", "", " & ", " || ", ";"]);
        let other = nested(dice, 1);
        text = if dice.roll(2) == 0 { text + joiner + &other } else { other + joiner + &text };
    }
    for _ in 0..dice.roll(4) {
        text = bent(dice, &text);
    }
    text
}

fn nested(dice: &mut Dice, depth: usize) -> String {
    if depth > 3 || dice.roll(4) < depth {
        return dice.pick(HEARTS).to_owned();
    }
    let mut text = String::new();
    for (at, part) in dice.pick(AROUND).split('@').enumerate() {
        if at > 0 {
            text.push_str(&nested(dice, depth + 1));
        }
        text.push_str(part);
    }
    text
}

fn bent(dice: &mut Dice, text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let at = dice.roll(chars.len() + 1);
    let to = (at + 1 + dice.roll(6)).min(chars.len());
    let string = |part: &[char]| part.iter().collect::<String>();
    let (before, part, behind) =
        (string(&chars[..at]), string(&chars[at..to]), string(&chars[to..]));
    match dice.roll(4) {
        0 => before + &behind,
        1 => before + &part + &part + &behind,
        2 => before + dice.pick(BITS) + &behind,
        _ => before + dice.pick(BITS) + &part + &behind,
    }
}

/// Whether a script may be run here: it names no file elsewhere, and ends nothing.
pub(super) fn is_harmless(script: &str) -> bool {
    let rest = script.replace("/dev/null", "").replace("{1..3}", "");
    let is_inside =
        |part: &str| part.is_empty() || part.ends_with(|c: char| c.is_alphanumeric() || c == '/');
    let mut parts: Vec<&str> = rest.split('/').collect();
    parts.pop();
    script.len() < 1_000
        && !script.contains('\0')
        && !rest.contains("..")
        && !rest.contains("kill")
        && parts.into_iter().all(is_inside)
}

/// Every script that is this one without a piece, the largest pieces first.
pub(super) fn without_a_piece(script: &str) -> impl Iterator<Item = String> + use<> {
    let chars: Vec<char> = script.chars().collect();
    let sizes = std::iter::successors(Some(chars.len() / 2), |size| Some(size / 2));
    let pieces: Vec<(usize, usize)> = sizes
        .take_while(|size| *size > 0)
        .flat_map(|size| (0..=chars.len() - size).map(move |at| (at, at + size)))
        .collect();
    pieces.into_iter().map(move |(at, to)| chars[..at].iter().chain(&chars[to..]).collect())
}
