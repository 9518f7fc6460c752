//! What filters behind a pipe make of a text: the ways in which scripts count the GPUs of a list, and cut a part out.

/// What the commands of a pipe print, one behind the other, from the words of each.
pub fn through(text: &str, filters: &[Vec<String>]) -> Option<String> {
    filters.iter().try_fold(text.to_owned(), |text, words| filter(&text, words))
}

fn filter(text: &str, words: &[String]) -> Option<String> {
    let (name, rest) = words.split_first()?;
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    match (name.as_str(), rest.as_slice()) {
        ("tr", ["-d", letters]) => {
            let letters = plain(letters)?;
            Some(text.chars().filter(|letter| !letters.contains(*letter)).collect())
        }
        ("tr", ["-s", " "]) => Some(squeezed(text)),
        ("tr", [from, into]) => {
            let mut letters = (plain(from)?, plain(into)?);
            let (Some(from), None) = (letters.0.pop(), letters.0.pop()) else { return None };
            let (Some(into), None) = (letters.1.pop(), letters.1.pop()) else { return None };
            Some(text.replace(from, &into.to_string()))
        }
        // The end of what is printed counts as the end of a line.
        ("wc", ["-l"]) => Some(text.trim_end_matches('\n').split('\n').count().to_string()),
        ("wc", ["-w"]) => Some(text.split_whitespace().count().to_string()),
        ("grep", ["-o", part]) => {
            let part = plain(part).filter(|part| part.chars().all(|letter| letter == ','))?;
            let found = text.matches(&part).count();
            (found > 0).then(|| vec![part.as_str(); found].join("\n"))
        }
        ("awk", [program]) => fields(text, " ", program),
        ("awk", ["-F", sign, program]) => fields(text, sign, program),
        ("awk", [sign, program]) => fields(text, sign.strip_prefix("-F")?, program),
        ("cut", ["-d", sign, number]) => cut(text, sign, number),
        ("cut", [sign, number]) => cut(text, sign.strip_prefix("-d")?, number),
        ("xargs", []) => Some(text.split_whitespace().collect::<Vec<_>>().join(" ")),
        ("sed", [change] | ["-E" | "-r" | "-e", change]) if BLANKS.contains(&change.trim()) => Some(squeezed(text)),
        ("sed", [change]) => {
            let parts: Vec<&str> = change.strip_prefix("s/")?.split('/').collect();
            let [old, new, "g"] = parts.as_slice() else { return None };
            let old = plain(old).filter(|old| !old.contains(['.', '*', '[', '^', '$', '&']))?;
            let new = plain(new).filter(|new| !new.contains('&'))?;
            Some(text.replace(&old, &new))
        }
        _ => None,
    }
}

/// How scripts put one blank in the place of several.
const BLANKS: [&str; 7] =
    [r"s/  \+/ /g", r"s/ \+/ /g", "s/  */ /g", "s/   */ /g", "s/ +/ /g", "s/  +/ /g", "s/[ ][ ]*/ /g"];

/// Whether a filter only moves blanks and ends of lines, whatever the words between them are.
pub fn moves_blanks(words: &[String]) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tr", "\\n" | "\n", " "] | ["tr", "-s", " "] | ["xargs"] => true,
        ["sed", rest @ ..] => rest.last().is_some_and(|change| BLANKS.contains(&change.trim())) && rest.len() < 3,
        _ => false,
    }
}

fn squeezed(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter != ' ' || !made.ends_with(' ') {
            made.push(letter);
        }
    }
    made
}

/// Letters as they stand, a line's end as it is written; sets and ranges are not followed.
fn plain(letters: &str) -> Option<String> {
    let told = letters.replace("\\n", "\n").replace("\\t", "\t");
    let ranges = told.contains(['\\', '[']) || (told.len() > 1 && told.contains('-'));
    (!told.is_empty() && !ranges).then_some(told)
}

/// `awk -F',' '{print NF}'`, `{print $1}`: of the first line.
fn fields(text: &str, sign: &str, program: &str) -> Option<String> {
    let asked = program.trim().strip_prefix('{')?.strip_suffix('}')?.trim().strip_prefix("print")?.trim();
    let line = text.split('\n').next().filter(|_| !text.trim_end().contains('\n'))?;
    let parts: Vec<&str> = match sign {
        " " => line.split_whitespace().collect(),
        _ if sign.len() == 1 => line.split(sign).collect(),
        _ => return None,
    };
    if asked == "NF" {
        return Some(parts.len().to_string());
    }
    let number: usize = asked.strip_prefix('$')?.parse().ok()?;
    Some(parts.get(number.checked_sub(1)?).copied().unwrap_or("").to_owned())
}

/// `cut -d',' -f1`.
fn cut(text: &str, sign: &str, number: &str) -> Option<String> {
    let number: usize = number.strip_prefix("-f")?.parse().ok()?;
    let one = sign.chars().count() == 1 && !text.trim_end().contains('\n');
    let part = text.trim_end().split(sign).nth(number.checked_sub(1)?);
    one.then(|| part.unwrap_or("").to_owned())
}

#[cfg(test)]
mod tests {
    use super::through;

    #[test]
    fn several_blanks_become_one() {
        for filter in [["sed", r"s/  \+/ /g"], ["sed", "s/  */ /g"], ["tr", "-s"]] {
            let mut words: Vec<String> = filter.iter().map(|word| (*word).to_owned()).collect();
            words.extend((filter[0] == "tr").then(|| " ".to_owned()));
            assert_eq!(through("a   b  c d", &[words]).as_deref(), Some("a b c d"), "{filter:?}");
        }
    }

    #[test]
    fn gpus_of_a_list_are_counted() {
        for (text, filters, told) in [
            ("0,1,2,3", vec!["tr , \\n", "wc -l"], Some("4")),
            ("0,1,2,3", vec!["awk -F, {print§NF}"], Some("4")),
            ("0,1,2,3", vec!["grep -o ,", "wc -l"], Some("3")),
            ("4, 5", vec!["tr -d §", "tr , \\n", "wc -w"], Some("2")),
            ("7", vec!["cut -d, -f1"], Some("7")),
            ("a-b", vec!["cut -d- -f2"], Some("b")),
            ("0,1", vec!["sed s/,/§/g", "wc -w"], Some("2")),
            ("0,1", vec!["tr a-z A-Z"], None),
            ("0,1", vec!["python count.py"], None),
        ] {
            let words = |filter: &str| filter.split(' ').map(|word| word.replace('§', " ")).collect::<Vec<_>>();
            let filters: Vec<Vec<String>> = filters.into_iter().map(words).collect();
            assert_eq!(through(text, &filters).as_deref(), told, "{filters:?}");
        }
    }
}
