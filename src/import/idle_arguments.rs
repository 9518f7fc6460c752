//! Arguments that a script declares and never reads: whatever they are given changes nothing.

use super::origin::Origin;
use super::script_classes::fills_own_alone;
use super::script_defaults::is_name;
use super::settings::Settings;

/// How often a text has a name as a word, comments aside.
pub fn mentions(text: &str, name: &str) -> usize {
    let words = |line: &str| {
        let code = line.split('#').next().unwrap_or("");
        code.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').filter(|word| *word == name).count()
    };
    text.lines().map(words).sum()
}

/// The arguments of a command, and the defaults of those that it does not give, that the text of a script, with the
/// modules of its project, declares for argparse or as fields of its only dataclass and names nowhere else. None where
/// what was parsed is handed on whole to what is not in the text.
pub fn names(given: &Settings, text: &str) -> Vec<String> {
    const WHOLE: [&str; 6] = ["vars(", "asdict(", "__dict__", "getattr(", "parse_known_args(", "dest="];
    let Some(parsed) = parsed_name(text) else { return Vec::new() };
    let classes = fills_own_alone(text, &[text]);
    let signs: &[char] = if classes { &['(', ',', '*', '='] } else { &['(', ',', '*'] };
    if WHOLE.iter().any(|part| text.contains(part)) || is_handed_on(text, parsed, signs) {
        return Vec::new();
    }
    let quoted = |name: &str| text.contains(&format!("\"--{name}\"")) || text.contains(&format!("'--{name}'"));
    // With dashes in its declaration the name itself is not mentioned there.
    let only_declared = |name: &str| match (quoted(name), quoted(&name.replace('_', "-"))) {
        (true, _) => mentions(text, name) == 1,
        (false, true) => mentions(text, name) == 0,
        (false, false) => classes && is_field(text, name) && mentions(text, name) == 1,
    };
    let own = |origin: &Origin| matches!(origin, Origin::Argument(_) | Origin::Default { framework: "the script", .. });
    let arguments = given.iter().filter(|(_, found)| own(&found.origin));
    arguments.map(|(name, _)| name).filter(|name| is_name(name) && only_declared(name)).map(str::to_owned).collect()
}

/// Whether a text has a field of a class of that name, with its type: `weight_decay: float = 0.05`.
fn is_field(text: &str, name: &str) -> bool {
    let fields = text.lines().filter(|line| line.starts_with([' ', '\t']));
    fields.filter_map(|line| line.trim().strip_prefix(name)).any(|rest| rest.trim_start().starts_with(':'))
}

/// What a script calls what its parser made: `args = parser.parse_args()`, `args = parser.parse_args_into_dataclasses()[0]`, or
/// `args = get_args()` where that function returns it.
fn parsed_name(text: &str) -> Option<&str> {
    let made = |line: &str| [".parse_args(", ".parse_args_into_dataclasses("].iter().any(|call| line.contains(call));
    let (at, line) = text.lines().enumerate().find(|(_, line)| made(line))?;
    if line.trim_start().starts_with("return ") {
        let above: Vec<&str> = text.lines().take(at).collect();
        let function = above.iter().rev().find_map(|line| line.strip_prefix("def "))?.split('(').next()?;
        let call = format!("= {function}(");
        let (left, _) = text.lines().find(|line| line.contains(&call))?.split_once('=')?;
        return Some(left.trim()).filter(|name| is_name(name));
    }
    let (left, right) = line.split_once('=')?;
    let name = left.split(':').next().unwrap_or(left).trim();
    (is_name(name) && made(right)).then_some(name)
}

/// Whether it is an argument, as a whole and behind one of the signs `signs`, of a call of what the text does not define:
/// another module may read any of it. What is printed is not read.
fn is_handed_on(text: &str, parsed: &str, signs: &[char]) -> bool {
    const SHOWN: [&str; 6] = ["print", "info", "pprint", "debug", "rank0_print", "log"];
    let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.match_indices(parsed).any(|(at, _)| {
        let (before, behind) = (text.get(..at).unwrap_or(""), text.get(at + parsed.len()..).unwrap_or(""));
        let before = before.trim_end();
        let ends = behind.trim_start().starts_with([',', ')']);
        if !ends || !before.ends_with(signs) {
            return false;
        }
        let open = before.rfind('(').and_then(|at| before.get(..at)).unwrap_or("");
        let called = open.rsplit(|sign: char| !letter(sign)).next().unwrap_or("");
        let defined = ["def ", "class "].iter().any(|word| text.contains(&format!("{word}{called}(")));
        !SHOWN.contains(&called) && !defined
    })
}

#[cfg(test)]
mod tests {
    use super::names;
    use crate::origin::Origin;
    use crate::settings::Settings;

    /// A script that declares `--bits` and `--rank` and reads the second.
    const SCRIPT: &str = "import argparse\nparser.add_argument('--bits')\nparser.add_argument('--rank')\n\
        def main(args):\n    train(rank=args.rank)\nargs = parser.parse_args()\nprint(args)\nmain(args)\n";

    fn given() -> Settings {
        let mut given = Settings::default();
        for name in ["bits", "rank"] {
            given.set(name, 8.into(), Origin::Argument(format!("--{name}")));
        }
        given
    }

    #[test]
    fn an_argument_that_is_only_declared_is_idle() {
        assert_eq!(names(&given(), SCRIPT), ["bits"]);
    }

    #[test]
    fn a_function_may_return_what_was_parsed() {
        let script = "def get_args():\n    parser.add_argument('--bits')\n    parser.add_argument('--rank')\n\
            \x20   return parser.parse_args()\ndef main(args):\n    train(rank=args.rank)\nargs = get_args()\nmain(args)\n";
        assert_eq!(names(&given(), script), ["bits"]);
    }

    #[test]
    fn a_field_that_nothing_asks_for_is_idle() {
        let script = "class Arguments:\n    bits: int = 8\n    rank: int = 16\n\
            args = HfArgumentParser(Arguments).parse_args_into_dataclasses()[0]\ntrain(rank=args.rank)\n";
        assert_eq!(names(&given(), script), ["bits"]);
        // Of several classes one may be the Trainer's own.
        assert!(names(&given(), &script.replace("args =", "args, others =").replace("[0]", "")).is_empty());
    }

    #[test]
    fn what_others_are_handed_whole_may_be_read_there() {
        assert!(names(&given(), &SCRIPT.replace("main(args)\n", "run(args)\n")).is_empty());
        assert!(names(&given(), &format!("{SCRIPT}config = vars(args)\n")).is_empty());
    }
}
