use super::*;

fn last(text: &str) -> Vec<String> {
    read(text, &|name| (name == "HOME").then(|| "/root".to_owned())).commands.pop().unwrap_or_default().words
}

#[test]
fn variables_arrays_arithmetic_and_defaults_are_put_in() {
    let script = "\
GPUS=8   # a node
NODES=${SLURM_NNODES:-\"2\"}
export WORLD=$(($GPUS*$NODES))
ARGS=(
--layers 96 # deep
--name 'a b'
# --left-out
)
ARGS+=(--more \"$HOME/x\")
if [ -n \"$A\" ]; then
  ARGS+=(--taken)
else
  ARGS+=(--not-taken)
fi
torchrun --nproc $GPUS --world ${WORLD} train.py \\
   ${ARGS[@]} > log 2>&1 &
";
    assert_eq!(
        last(script),
        [
            "torchrun",
            "--nproc",
            "8",
            "--world",
            "16",
            "train.py",
            "--layers",
            "96",
            "--name",
            "a",
            "b",
            "--more",
            "/root/x",
            "--not-taken",
            ">",
            "log",
            "2>&1"
        ]
    );
    // A comment ends with its line, whatever stands at its end; branches that do not hold are passed over.
    let script = "ARGS=(\n  # --left-out 1 \\\n  --kept 2 \\\n)\nif [ \"$MODE\" == \"b\" ]; then\nS=1\nelif [ $N -gt 3 ]; then\nS=2\n\
        else\nS=3\nfi\nif [ -z \"$2\" ]; then S=9; fi\ntorchrun --master_addr $MASTER_ADDR --port $(free_port) x.py $ARGS --s $S --one $1\n";
    let known = |name: &str| match name {
        "1" => Some("first".to_owned()),
        "2" | "N" => Some("4".to_owned()),
        _ => None,
    };
    assert_eq!(
        read(script, &known).commands.pop().unwrap_or_default().words,
        ["torchrun", "--master_addr", "?", "--port", "?", "x.py", "--kept", "2", "--s", "2", "--one", "first"]
    );
    assert_eq!(last("A=1 B=2 python x.py"), ["A=1", "B=2", "python", "x.py"]);
    assert_eq!(last("cd \"$(dirname $0)\" && python 'a b' \"c $HOME\""), ["python", "a b", "c /root"]);
}

#[test]
fn of_a_case_the_branch_of_its_word_is_read() {
    let script = "SCALE=\"8B\" # or \"800M\"\ncase \"${SCALE}\" in\n  \"800M\")\n    TP=1\n    ;;\n  \"7B\" | \"8B\")\n    TP=4\n    PP=2 ;;\n\
        *)\n    TP=9\n    exit 1\n    ;;\nesac\ncase $NONE in a) PP=7 ;; *) CP=2;; esac\npython x.py $TP $PP $CP $(($RANDOM % 1000 + 6000)) `pwd`/a.json $(($SLURM_NNODES * 8))";
    assert_eq!(last(script), ["python", "x.py", "4", "2", "2", "6000", "./a.json", "?"]);
}

#[test]
fn whatever_the_bytes_the_end_is_reached() {
    for text in ["$", "${", "$((", "${a", "'", "\"\\", "a=(", "${a:-${b", "if", "fi fi", "\\"] {
        read(text, &|_| None);
    }
    let doubling = (0..64).fold("a=xxxxxxxx\n".to_owned(), |text, _| text + "a=\"$a$a\"\n");
    read(&doubling, &|_| None);
}

#[test]
fn functions_loops_tables_and_sourced_scripts_are_followed() {
    let all = |text: &str| -> Vec<String> {
        let source = |path: &str| (path == "env.sh").then(|| "BATCH=4\nfoo() { echo; }\n".to_owned());
        let script = read_around(text, &Surroundings { variable: &|_| None, file: &source, shifted: None });
        script.commands.iter().map(|command| command.words.join(" ")).collect()
    };
    // A function with a `case` in it, called twice.
    let text = "train() {\n  case $1 in\n    a) SIZE=7;;\n    *) SIZE=13 ;;\n  esac\n  python x.py --size $SIZE --lr ${2:-1}\n}\ntrain a\ntrain b 5\n";
    assert_eq!(all(text), ["python x.py --size 7 --lr 1", "python x.py --size 13 --lr 5"]);
    let text = "function go\n{\n  python x.py \"$@\"\n}\ngo --a 1";
    assert_eq!(all(text), ["python x.py --a 1"]);
    // Each argument stays a word of its own, whatever is in it.
    let text = "go() { python \"$@\"; }\ngo x.py \"a b\"";
    assert_eq!(read(text, &|_| None).commands[0].words, ["python", "x.py", "a b"]);
    // Known words are gone through, nested too; numbers and patterns are not.
    let text = "for a in 1 2; do\nfor b in x y; do\npython x.py $a $b\ndone\ndone\npython y.py $a";
    assert_eq!(
        all(text),
        ["python x.py 1 x", "python x.py 1 y", "python x.py 2 x", "python x.py 2 y", "python y.py 2"]
    );
    assert_eq!(all("for f in *.yaml; do python x.py --config $f; done"), ["python x.py --config ?"]);
    assert_eq!(all("for ((i=0; i<8; i++)); do python x.py --i $i; done"), ["python x.py --i ?"]);
    // Lists and tables by index.
    let text = "declare -A SIZE=([7b]=4096 [13b]=5120)\nL=(a b c)\ni=1\npython x.py ${SIZE[13b]} ${L[$i]} ${L[i+1]} ${#L[@]} ${L[7]}";
    assert_eq!(all(text), ["python x.py 5120 b c 3 ?"]);
    // What stands behind a name.
    let text = "A=meta/Llama-2-7b\nB=\npython x.py ${A##*/} ${A%%/*} ${A/Llama/X} ${A:+set} ${B:+set} ${C:-${D:-${A#*-}}} ${A:0:3} ${!A} $[1+1]";
    assert_eq!(all(text), ["python x.py Llama-2-7b meta meta/X-2-7b set 2-7b met ? 2"]);
    // Sourced, evaluated, grouped.
    let text = "source env.sh\nCMD=\"torchrun x.py --b $BATCH\"\neval \"$CMD\"\n( cd y; python z.py ) > log\n{ python w.py --a; } | tee log";
    assert_eq!(all(text), ["torchrun x.py --b 4", "python z.py", "python w.py --a", "tee log"]);
}

#[test]
fn folders_arithmetic_and_lists_in_quotes_are_followed() {
    let known = |name: &str| (name == "0").then(|| "a/b/run.sh".to_owned());
    let words = |text: &str| read(text, &known).commands.pop().unwrap().words.join("|");
    let text = "D=\"$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\"\nN=2\npython $D/x.py $(expr 16 / $N) $(basename $0 .sh) $(nproc)";
    assert_eq!(words(text), "python|a/b/x.py|8|run|?");
    // In quotes the items of a list stay words; as the value of a variable they are one.
    assert_eq!(words("L=(a \"b c\")\npython \"${L[@]}\" x"), "python|a|b c|x");
    assert_eq!(words("L=(a b)\nC=\"python ${L[@]} x\"\n$C"), "python|a|b|x");
    assert_eq!(words("V=${V:-\"a b\"}\npython $V"), "python|a|b");
    // Where it has gone; a subshell comes back.
    let script = read("cd a\n(cd b; python x.py)\npython y.py", &known);
    let folders: Vec<&str> = script.commands.iter().map(|command| command.folder.as_str()).collect();
    assert_eq!(folders, ["a/b", "a"]);
    // Options that a condition decides may be any.
    let text = "if [ $1 = fp16 ]; then\nO=\"--fp16\"\nelse\nO=\"--bf16\"\nfi\npython x.py $O";
    assert_eq!(words(text), "python|x.py|--?");
}

#[test]
fn what_is_set_nowhere_is_kept_by_name() {
    let script = read("source other.sh\n$LAUNCHER python x.py --a 1 $EXTRA $EXTRA", &|_| None);
    assert_eq!(script.unread, ["other.sh"]);
    let command = script.commands.last().unwrap();
    assert_eq!(command.words, ["python", "x.py", "--a", "1"]);
    assert_eq!(
        (command.unset.as_slice(), command.begins_unset),
        (["LAUNCHER".to_owned(), "EXTRA".to_owned(), "EXTRA".to_owned()].as_slice(), true)
    );
}

#[test]
fn a_variable_of_a_branch_that_is_not_taken_is_nothing() {
    let read = |size: &str| {
        let text = format!(
            "SIZE={size}\nif [ $SIZE = 32B ]; then\nGQA=\"--group-query-attention\"\nfi\ntorchrun x.py --bf16 $GQA\n"
        );
        read(&text, &|_| None).commands.last().unwrap().clone()
    };
    assert_eq!(read("32B").words, ["torchrun", "x.py", "--bf16", "--group-query-attention"]);
    assert_eq!(read("7B").words, ["torchrun", "x.py", "--bf16"]);
    // It is none that the environment may hold.
    assert!(read("7B").unset.is_empty());
}

/// What `bash` gives a command where the environment holds nothing is no more than one of its runs.
#[test]
fn a_variable_of_a_branch_that_the_environment_decides_is_named() {
    let named = |text: &str| {
        let source = |path: &str| (path == "here.sh").then(|| "OTHER=1\n".to_owned());
        let around =
            Surroundings { variable: &|name| (name == "USE_Z3").then(|| "0".to_owned()), file: &source, shifted: None };
        read_around(text, &around).commands.pop().unwrap_or_default()
    };
    let branch = "then\nEXTRA=\"--gradient_checkpointing true\"\nfi\n";
    let command = "torchrun x.py --lr 1 $EXTRA\n";
    let open = [
        // Set nowhere, known from the environment, in arithmetic, in one part of two.
        format!("if [ \"$CKPT\" = 1 ]; {branch}{command}"),
        format!("if [ \"$USE_Z3\" = 1 ]; {branch}{command}"),
        format!("if (( USE_Z3 > 1 )); {branch}{command}"),
        format!("A=1\nB=2\nif [ $A = 2 ] || [ -n \"$CKPT\" ]; {branch}{command}"),
        // The first branch hides the other.
        format!("if [ -z \"$CKPT\" ]; then\nA=1\nelse\nEXTRA=\"--a 1\"\nfi\n{command}"),
        format!("case \"$CKPT\" in\n1)\nEXTRA=\"--a 1\"\n;;\nesac\n{command}"),
        // Another branch that the script itself rules out does not settle it.
        format!("A=1\nif [ $A = 2 ]; {branch}if [ \"$CKPT\" = 1 ]; {branch}{command}"),
        // What may set it before it is used.
        format!("A=1\nif [ $A = 2 ]; {branch}source ./env.sh\n{command}"),
        format!("A=1\nif [ $A = 2 ]; {branch}read -r -p \"options? \" EXTRA\n{command}"),
        format!("A=1\nif [ $A = 2 ]; {branch}eval \"$(options)\"\n{command}"),
        format!("A=1\nif [ $A = 2 ]; {branch}export $(cat .env)\n{command}"),
    ];
    for text in &open {
        let command = named(text);
        assert_eq!(command.unset, ["EXTRA"], "{text}: {:?}", command.words);
    }
    let settled = [
        format!("A=1\nif [ $A = 2 ]; {branch}source here.sh\nread -r ANSWER\n{command}"),
        format!("A=1\nif [ $A = 2 ] && [ -n \"$A\" ]; {branch}source ~/.bashrc\n{command}"),
        format!("A=1\nif [ $A = 1 ]; then\nB=1\nelif [ -n \"$CKPT\" ]; {branch}{command}"),
        format!("A=1\nif (( A > 1 )); {branch}{command}"),
        format!("A=1\nif [ $A = 2 ]; then\nif [ -n \"$CKPT\" ]; {branch}fi\n{command}"),
        format!("SIZE=7B\ncase $SIZE in\n13B)\nEXTRA=\"--a 1\"\n;;\n*)\nB=1\n;;\nesac\n{command}"),
    ];
    for text in &settled {
        let command = named(text);
        assert!(command.unset.is_empty(), "{text}: {:?}", command.unset);
        assert_eq!(command.words, ["torchrun", "x.py", "--lr", "1"], "{text}");
    }
    // A value without its option's branch is missing, not nothing.
    let command = named("A=1\nif [ $A = 2 ]; then\nBS=4\nfi\ntorchrun x.py --batch $BS --bf16 1\n");
    assert_eq!((command.words[3].as_str(), command.unset.as_slice()), ("?", ["BS".to_owned()].as_slice()));
}

/// What bash gives the command is open, whichever of two branches sets the variable.
#[test]
fn a_variable_of_one_of_two_open_branches_is_unknown() {
    for (then, otherwise) in [("A=1", "A=1\nEXTRA='--a 1'"), ("A=1\nEXTRA='--a 1'", "A=1")] {
        let text = format!("if [ -f x ]; then\n{then}\nelse\n{otherwise}\nfi\npython x.py --lr $A $EXTRA\n");
        assert_eq!(last(&text), ["python", "x.py", "--lr", "1", "--?"], "{text}");
    }
}

#[test]
fn brackets_that_nothing_opened_are_letters() {
    for text in ["}", ")", "} x", "f() }", "{", "(", "function }", "${a}}"] {
        read(text, &|_| None);
    }
}

#[test]
fn conditions_of_several_parts_are_followed() {
    let words = |text: &str| -> Vec<String> {
        read(text, &|_| None).commands.iter().map(|command| command.words.join(" ")).collect()
    };
    let text = "MODE=\"${1:-all}\"\nif [ \"$MODE\" = \"train\" ] || [ \"$MODE\" = \"all\" ]; then\n  python x.py\nfi\n\
        if [ \"$MODE\" = \"all\" ] && [ \"$MODE\" = \"eval\" ]; then\n  python y.py\nfi\n";
    assert_eq!(words(text), ["python x.py"]);
    let text = "N=2\nif [[ $N == 1 || $N == 2 ]]; then A=1; else A=2; fi\nif [[ $N -gt 1 && $N -lt 2 ]]; then B=1; else B=2; fi\npython x.py $A $B";
    assert_eq!(words(text), ["python x.py 1 2"]);
    // What one part leaves open stays open where the other does not decide.
    let text = "if [ -z \"$1\" ] || [ $((1+1)) = 2 ]; then A=1; else A=2; fi\nif [ -z \"$1\" ] && [ 1 = 1 ]; then B=1; else B=2; fi\npython x.py $A $B";
    assert_eq!(words(text), ["python x.py 1 ?"]);
}

#[test]
fn a_colon_sets_what_is_not_set() {
    let script = "\
NODES=4
: ${GPUS:=8}  # a node
: \"${NODES:=2}\" ${CONFIG:=\"configs/${NAME:-tiny}.yaml\"}
torchrun --nnodes $NODES --nproc $GPUS train.py $CONFIG
";
    assert_eq!(last(script), ["torchrun", "--nnodes", "4", "--nproc", "8", "train.py", "configs/tiny.yaml"]);
}

#[test]
fn options_on_a_condition_are_printed_where_it_holds() {
    let script = "\
DSA=\"${1:-0}\"
python a.py $( [ \"${DSA}\" != \"1\" ] && echo \"--overlap\" ) --tp 4 \\
  $( [ \"${DSA}\" = \"1\" ] && echo \"--variant dsa\" ) $([[ $DSA == 1 ]] && echo --on || echo --off)
";
    assert_eq!(last(script), ["python", "a.py", "--overlap", "--tp", "4", "--off"]);
}

#[test]
fn a_command_whose_success_is_asked_for_runs() {
    let words = |text: &str| -> Vec<String> {
        read(text, &|_| None).commands.iter().map(|command| command.words.join(" ")).collect()
    };
    assert_eq!(
        words("if python a.py --b 2; then\n  echo yes\nelse\n  echo no\nfi\n"),
        ["python a.py --b 2", "echo yes", "echo no"]
    );
    assert_eq!(words("if ! torchrun a.py; then exit 1; fi\n"), ["torchrun a.py"]);
    assert_eq!(words("until python a.py; do sleep 5; done\n"), ["python a.py", "sleep 5"]);
    assert_eq!(words("A=1\nif [ $A = 2 ]; then\n  if python a.py; then echo x; fi\nfi\n"), Vec::<String>::new());
}

/// What bash 5 prints of the same scripts.
#[test]
fn branches_are_chosen_by_patterns() {
    for (script, words) in [
        ("S=7B-chat\ncase $S in 7*) A=1;; 13*|70*) A=2 ;; *) A=3;; esac\necho $A", "1"),
        ("S=70B\ncase $S in 7[bB]*) A=1;; 13*|70*) A=2 ;; *) A=3;; esac\necho $A", "2"),
        ("S=ab\ncase $S in \"a*\") A=1;; (a?) A=2 ;; esac\necho $A", "2"),
        ("S=--lr=2\ncase $S in --lr=*) A=${S#*=};; *) A=3;; esac\necho $A", "2"),
        ("S='a b'\ncase \"$S\" in\n  \"a b\" | c )\n A=1\n ;;\n *)\n A=3\n ;;\nesac\necho $A", "1"),
        ("M=llama; A=0; B=0\ncase $M in ll*) A=2 ;;& *ma) B=4 ;; *) B=9 ;; esac\necho $A $B", "2 4"),
        ("M=llama; A=0; B=0\ncase $M in\n  ll*) A=2 ;&\n  x) B=4 ;;\n  *) B=9 ;;\nesac\necho $A $B", "2 4"),
        ("M=a; A=0\ncase $M in a) A=1;; b) A=2;& c) A=3;; *) A=4;;& *) A=5;; esac\necho $A", "1"),
        ("M=b; A=0\ncase $M in a) A=1;; b) A=2;& c) A=${A}3;;& *) A=${A}4;; esac\necho $A", "234"),
        ("X=7b; A=0\nif [[ $X == 7* ]]; then A=1; fi\necho $A", "1"),
        ("X=7b; A=0\nif [[ $X == \"7*\" ]]; then A=1; fi\necho $A", "0"),
        ("X=7b; A=0\nif [ $X = 7* ]; then A=1; fi\necho $A", "0"),
        ("X=full; A=0\nif [[ $X != *lora* && -n $X ]]; then A=1; fi\necho $A", "1"),
        ("X=q-lora; P='*lora*'; A=0; B=0\n[[ $X == $P ]] && A=1\n[[ $X == \"$P\" ]] && B=1\necho $A $B", "1 0"),
        ("X=llama-7b; A=0\nif [[ $X =~ ^llama ]]; then A=1; fi\necho $A", "1"),
        ("X=; A=0\nif [[ $X == '' ]]; then A=1; fi\nif ! [[ $X ]]; then A=${A}1; fi\necho $A", "11"),
        ("X=1; A=0\nif [ $X = 2 ]; then A=1; elif [[ $X == [12] ]]; then A=2; else A=3; fi\necho $A", "2"),
    ] {
        assert_eq!(last(script).get(1..).unwrap_or_default().join(" "), words, "{script}");
    }
}

#[test]
fn lists_of_statements_go_on_as_each_succeeds() {
    for (script, words) in [
        ("M=full; E=a\n[ $M = lora ] && E=b\necho $E", "a"),
        ("M=lora; E=a\n[ $M = lora ] && E=b\necho $E", "b"),
        ("M=full\n[[ $M == lora ]] && E=1 || E=2\necho $E", "2"),
        ("M=lora\n[[ $M == lora ]] && { E=1; F=3; } || E=2\necho $E $F", "1 3"),
        ("M=full\n[[ $M == lora ]] ||\n  E=4\necho $E", "4"),
        ("E=1\ncd /tmp || E=2\necho $E", "1"),
        ("M=lora; E=1\n[[ $M == l* && $M != *x ]] && E=2\n[[ $M == q* || -z $M ]] && E=3\necho $E", "2"),
        // Only the run could tell.
        ("E=1\n[ -f x ] && E=2\necho $E", "?"),
        ("E=1\ngrep -q a b || E=2\necho $E", "?"),
        ("E=1\n[ -f x ] && F=2\necho $E", "1"),
        // The branch that is open goes on behind it.
        ("E=1\nif [ -f x ]; then [ -d y ] || exit 1\nE=2; fi\necho $E", "?"),
        ("X=1\nif [ $X = 2 ]; then E=1; elif [ -f x ]; then E=2; else E=3; fi\necho $E", "?"),
    ] {
        assert_eq!(last(script).get(1..).unwrap_or_default().join(" "), words, "{script}");
    }
}

/// What bash 5 prints of the same scripts.
#[test]
fn values_are_cut_by_patterns() {
    for (script, words) in [
        (
            "X=a/b/c.tar.gz; echo ${X##*/} ${X%/*} ${X%%.*} ${X#*.} ${X%.gz} ${X#b}",
            "c.tar.gz a/b a/b/c tar.gz a/b/c.tar a/b/c.tar.gz",
        ),
        ("X=llama-3-8b; echo ${X%%-[0-9]*} ${X##*-} ${X#?????} ${X%\"-8b\"}", "llama 8b -3-8b llama-3"),
        (
            "X=a/b/c; echo ${X//\\//_} ${X/b*/x} ${X//[ac]/z} ${X/#a/q} ${X/%c/q} ${X/c/}",
            "a_b_c a/x z/b/z q/b/c a/b/q a/b/",
        ),
        ("X=meta; Y=t; echo ${X^} ${X^^} ${X:1:2} ${X/$Y/_}", "Meta META et me_a"),
        ("X=$1/a-7b.yaml; echo ${X##*/} ${X%.yaml} ${X#*/}", "a-7b.yaml ?/a-7b ?"),
    ] {
        assert_eq!(last(script).get(1..).unwrap_or_default().join(" "), words, "{script}");
    }
}

#[test]
fn what_the_environment_decides_is_told() {
    let doubts = |script: &str| read(script, &|_| None).commands.pop().unwrap_or_default().doubts;
    let both = |name: &str, asked: &str| vec![(name.to_owned(), asked.to_owned())];
    let extra = "E=\"\"\nif [ \"$LORA\" = 1 ]; then\nE=\"$E --lora\"\nfi\n";
    assert_eq!(doubts(&format!("{extra}python x.py $E")), both("E", "LORA"));
    assert_eq!(doubts(&format!("{extra}ARGS=(--a 1 $E)\npython x.py \"${{ARGS[@]}}\"")), both("ARGS", "LORA"));
    assert_eq!(doubts("B=4\n[ -n \"$BIG\" ] && B=8\npython x.py --batch $B"), both("B", "BIG"));
    assert_eq!(doubts("case $SIZE in 7b) B=1;; *) B=2;; esac\npython x.py --batch $B"), both("B", "SIZE"));
    // Defaults, what is set anew behind it, and what the script itself decides.
    for script in [
        "[ -z \"$B\" ] && B=4\npython x.py --batch $B",
        "if [ \"${LORA:-0}\" = 1 ]; then B=2; else B=4; fi\npython x.py --batch $B",
        "if [ -n \"$BIG\" ]; then B=2; fi\nB=4\npython x.py --batch $B",
        "BIG=1\nif [ -n \"$BIG\" ]; then B=2; fi\npython x.py --batch $B",
    ] {
        assert_eq!(doubts(script), [], "{script}");
    }
}

#[test]
fn a_word_is_read_back_as_it_was() {
    assert_eq!(quoted("--lr=1e-4"), "--lr=1e-4");
    assert_eq!(quoted("--a 1 --b 'x'"), "'--a 1 --b '\\''x'\\'''");
    assert_eq!(quoted(""), "''");
}

#[test]
fn a_variable_that_is_set_is_told_from_one_that_is_not() {
    assert_eq!(last("A=1\nif [[ -v A ]]; then python a.py; else python b.py; fi"), ["python", "a.py"]);
    assert_eq!(last("if [[ ! -v A ]]; then python a.py; else python b.py; fi"), ["python", "a.py"]);
}

#[test]
fn a_substituted_comment_is_nothing() {
    assert_eq!(last("python a.py `# why` --b 2"), ["python", "a.py", "--b", "2"]);
}
