//! Command lines without the secrets in them: they go to screens that are shared and into recordings that are sent on.

/// What stands for a secret.
const HIDDEN: &str = "***";

/// Parts of an option's name whose value is one whatever it is.
const ALWAYS: [&str; 5] = ["password", "passwd", "passphrase", "secret", "credential"];

/// Parts of an option's name whose value is one unless it is a number or a truth value: `--max-tokens 4096`.
const MOSTLY: [&str; 2] = ["key", "token"];

/// The words of a command line, one after the other.
#[derive(Debug, Default)]
pub struct Redacted {
    /// The word before was an option with a secret for its value.
    follows: Option<Kind>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Always,
    Mostly,
}

impl Redacted {
    /// The next word as it may be shown.
    pub fn next(&mut self, word: &str) -> String {
        let follows = self.follows.take();
        if let Some((name, value)) = word.split_once('=') {
            return match kind(name) {
                Some(kind) if hides(kind, value) => format!("{name}={HIDDEN}"),
                _ => format!("{name}={}", without_password(value)),
            };
        }
        if word.starts_with('-') && word.parse::<f64>().is_err() {
            self.follows = kind(word);
            return word.to_owned();
        }
        match follows {
            Some(kind) if hides(kind, word) => HIDDEN.to_owned(),
            _ => without_password(word),
        }
    }
}

fn kind(name: &str) -> Option<Kind> {
    // A tokenizer has a name, and none that is secret.
    let name = name.to_lowercase().replace("tokenizer", "").replace("tokenize", "");
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    if has(&ALWAYS) { Some(Kind::Always) } else { has(&MOSTLY).then_some(Kind::Mostly) }
}

fn hides(kind: Kind, value: &str) -> bool {
    let plain = value.is_empty()
        || value.parse::<f64>().is_ok()
        || matches!(value.to_lowercase().as_str(), "true" | "false" | "none");
    matches!(kind, Kind::Always) && !value.is_empty() || !plain
}

/// An address without the password before its host: `https://user:***@host/`.
fn without_password(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let authority = rest.split('/').next().unwrap_or(rest);
    match authority.rsplit_once('@') {
        Some((user, _)) if user.contains(':') => {
            let (name, _) = user.split_once(':').unwrap_or((user, ""));
            format!("{scheme}://{name}:{HIDDEN}{}", &rest[user.len()..])
        }
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(line: &[&str]) -> String {
        let mut words = Redacted::default();
        line.iter().map(|word| words.next(word)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn values_of_keys_tokens_and_passwords_are_hidden() {
        for (line, shown) in [
            (&["train.py", "--api-key", "abc", "--lr", "3e-4"][..], "train.py --api-key *** --lr 3e-4"),
            (&["--hub_token=hf_x", "--password", "1234"], "--hub_token=*** --password ***"),
            (&["--wandb.apiKey=abc", "x"], "--wandb.apiKey=*** x"),
            (&["env", "WANDB_API_KEY=abc", "HF_TOKEN=hf_y", "python"], "env WANDB_API_KEY=*** HF_TOKEN=*** python"),
            (&["trainer.logger.api_key=abc"], "trainer.logger.api_key=***"),
            (&["https://me:pass@host/x", "--url=git://a:b@c"], "https://me:***@host/x --url=git://a:***@c"),
            (&["--token", "--next", "value"], "--token --next value"),
        ] {
            assert_eq!(redacted(line), shown);
        }
    }

    #[test]
    fn what_only_sounds_like_a_secret_stays() {
        for line in [
            &["--max-tokens", "4096", "--num-key-value-heads", "8"][..],
            &["--tokenizer-type", "GPT2BPETokenizer", "--tokenizer_path=/models/x"],
            &["--use-key-norm=True", "https://host/a@b"],
        ] {
            assert_eq!(redacted(line), line.join(" "));
        }
    }
}
