//! Finding things by name, forgivingly.

/// The letters that matter: case, blanks, `-`, `_`, and a leading `NVIDIA` do not.
fn letters(name: &str) -> impl Iterator<Item = char> {
    let all = name.chars().filter(|c| !matches!(c, ' ' | '-' | '_')).flat_map(char::to_lowercase);
    let mut behind = all.clone();
    let vendor = "nvidia".chars().all(|letter| behind.next() == Some(letter));
    if vendor { behind } else { all }
}

/// The same of a name in ASCII, as nearly all are: many times faster, and each plan looks through all names.
fn ascii_letters(name: &str) -> impl Iterator<Item = u8> {
    let all = name.bytes().filter(|byte| !matches!(byte, b' ' | b'-' | b'_')).map(|byte| byte.to_ascii_lowercase());
    let mut behind = all.clone();
    let vendor = b"nvidia".iter().all(|letter| behind.next() == Some(*letter));
    if vendor { behind } else { all }
}

/// Whether `known` is the name whose letters are `wanted`.
fn is_called(known: &str, wanted: &str) -> bool {
    if !known.is_ascii() {
        return letters(known).eq(wanted.chars());
    }
    // Most names end here: they are too short, or begin with another letter and with no vendor.
    let begins = known.bytes().find(|byte| !matches!(byte, b' ' | b'-' | b'_')).map(|byte| byte.to_ascii_lowercase());
    let may_be = known.len() >= wanted.len() && (begins == wanted.bytes().next() || begins == Some(b'n'));
    may_be && ascii_letters(known).eq(wanted.bytes())
}

/// A name without what does not matter.
pub fn plain(name: &str) -> String {
    letters(name).collect()
}

type Names<'a> = (&'a String, &'a Vec<String>);

/// The last item with that name or alias: what the user's own files add wins over what is embedded.
pub fn find<'a, T>(items: &'a [T], name: &str, names: impl Fn(&'a T) -> Names<'a>) -> Option<&'a T> {
    let wanted = plain(name);
    items.iter().rev().find(|item| has(names(item), &wanted))
}

/// Whether one of these is the name whose letters are `wanted`.
pub fn has((main, aliases): Names<'_>, wanted: &str) -> bool {
    std::iter::once(main).chain(aliases).any(|known| is_called(known, wanted))
}

/// Whether one of these names has those letters in it. The vendor alone is looked for as it is written.
pub fn have((main, aliases): Names<'_>, asked: &str) -> bool {
    let wanted = plain(asked);
    let of_vendor = || asked.trim().to_lowercase();
    std::iter::once(main).chain(aliases).any(|known| match wanted.is_empty() {
        true => known.to_lowercase().contains(&of_vendor()),
        false => plain(known).contains(&wanted),
    })
}

/// Characters of the longest name that may be a slip of a known one; what is longer is no name.
pub const LONGEST_NAME: usize = 100;

/// The main name or alias that looks most like `name`; none when nothing does.
pub fn nearest<'a, T>(items: &'a [T], name: &str, names: impl Fn(&'a T) -> Names<'a>) -> Option<&'a str> {
    // Likeness is a matter of each letter against each: of a text of megabytes it takes seconds.
    if name.chars().nth(LONGEST_NAME).is_some() {
        return None;
    }
    let wanted = plain(name);
    let known = || {
        items.iter().flat_map(|item| {
            let (main, aliases) = names(item);
            std::iter::once(main).chain(aliases)
        })
    };
    let like = |known: &'a String| (strsim::jaro_winkler(&plain(known), &wanted), known.as_str());
    let most = |a: &(f64, &str), b: &(f64, &str)| a.0.total_cmp(&b.0);
    // Another number is another product: a name of the same numbers that is much alike comes before one of others that
    // is more so.
    let same = known().map(like).filter(|(likeness, known)| *likeness > 0.9 && numbers(known).eq(numbers(name)));
    let found = same.max_by(most);
    found.or_else(|| known().map(like).filter(|(likeness, _)| *likeness > 0.7).max_by(most)).map(|(_, known)| known)
}

/// The numbers in a name, in their order.
fn numbers(name: &str) -> impl Iterator<Item = &str> {
    name.split(|letter: char| !letter.is_ascii_digit()).filter(|digits| !digits.is_empty())
}

/// That there is no `name`, and what there is: the nearest, or else `all` that are known.
pub fn unknown(name: &str, nearest: Option<&str>, all: &str) -> String {
    let more = if name.chars().nth(LONGEST_NAME).is_some() { "…" } else { "" };
    let name = name.chars().take(LONGEST_NAME).collect::<String>() + more;
    match nearest {
        Some(known) => format!("{name} is not in the catalogue; nearest: {known}"),
        None => format!("{name} is not in the catalogue; {all}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_called, plain};

    #[test]
    fn the_contract_forgives_case_blanks_dashes_and_the_vendor() {
        assert_eq!(plain("NVIDIA H100"), plain("h-100"));
        assert_eq!(plain("A100_80GB_SXM"), plain("nvidia a100 80gb sxm"));
        assert_ne!(plain("A100 40GB"), plain("A100 80GB"));
    }

    #[test]
    fn letters_are_looked_for_in_names_and_aliases() {
        let (name, aliases) = ("NVIDIA H200 SXM".to_owned(), vec!["NVIDIA H200".to_owned()]);
        let have = |asked: &str| super::have((&name, &aliases), asked);
        assert!(have("h200") && have("H-200 sxm") && have("nvidia") && have("") && have("200"));
        assert!(!have("h100") && !have("amd"));
        assert!(!super::have((&"AMD Instinct MI300X".to_owned(), &vec![]), "nvidia"));
    }

    #[test]
    fn a_name_of_the_same_number_comes_before_one_that_looks_more_alike() {
        let known: Vec<(String, Vec<String>)> = ["RTX 4060 Ti", "RTX 4090", "A100 80GB SXM", "A100 40GB SXM"]
            .map(|name| (name.to_owned(), Vec::new()))
            .to_vec();
        let nearest = |name: &str| super::nearest(&known, name, |(main, aliases)| (main, aliases));
        assert_eq!(nearest("RTX 4090 Ti"), Some("RTX 4090"));
        assert_eq!(nearest("RTX 4060 Tj"), Some("RTX 4060 Ti"));
        assert_eq!(nearest("A100 80BG SXM"), Some("A100 80GB SXM"));
        // A slip in the number itself.
        assert_eq!(nearest("RTX 4009"), Some("RTX 4090"));
        assert_eq!(nearest("Cray"), None);
    }

    #[test]
    fn a_name_is_found_by_its_letters_alone() {
        let names = ["NVIDIA H100", "nvidia", "N V I D I A", "A100_80GB-SXM", "Größe-1", "NVIDIA ÄX", "", "nvid"];
        for known in names {
            for asked in names {
                assert_eq!(is_called(known, &plain(asked)), plain(known) == plain(asked), "{known} {asked}");
            }
        }
    }
}
