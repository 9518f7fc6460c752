//! What two values of a script come to, by the sign between them.

use super::script::FollowedScript;
use super::store::{Collection, Names};
use super::syntax::Expression;
use super::value::{ArgumentSource, Known};

impl FollowedScript<'_> {
    /// `left + right`
    pub(super) fn combined(&mut self, left: &Known, sign: &str, right: &Known, written: &Expression) -> Known {
        let source = left.source().and(&right.source());
        // `steps // world_size`: what was told is the whole.
        if matches!(sign, "//" | "/") && left.number().is_some() && is_ranks(right, written) {
            return left.clone().also(&ArgumentSource::DIVIDED);
        }
        if let Some((first, second)) = left.number().zip(right.number()) {
            let whole = left.whole().is_some() && right.whole().is_some();
            return arithmetic(first, sign, second, whole).also(&source);
        }
        match (left.text(), sign, right.text()) {
            (Some(first), "+", Some(second)) => return Known::of_text(format!("{first}{second}")).also(&source),
            // `Path(folder) / "name"`
            (Some(first), "/", Some(second)) => {
                return Known::of_text(format!("{}/{second}", first.trim_end_matches('/'))).also(&source);
            }
            _ => {}
        }
        match (self.store.items(left).cloned(), sign, right) {
            (Some(first), "+", _) => match self.store.items(right).cloned() {
                Some(second) => self.store.list(first.into_iter().chain(second).collect()),
                None => Known::Collection(self.store.add(Collection::List(None))),
            },
            (None, "|", Known::Collection(_)) => {
                let mut names = Names::default();
                self.spread_into(&mut names, left);
                self.spread_into(&mut names, right);
                Known::Collection(self.store.add(Collection::Names(names)))
            }
            _ => Known::UNKNOWN,
        }
    }
}

/// Whether a value is the number of processes, by what it is or how it is called.
fn is_ranks(value: &Known, written: &Expression) -> bool {
    let called = |expression: &Expression| match expression {
        Expression::Name(name) | Expression::Attribute(_, name) => name.to_lowercase().contains("world_size"),
        _ => false,
    };
    matches!(value, Known::Ranks) || (value.is_open() && called(written))
}

fn arithmetic(left: f64, sign: &str, right: f64, whole: bool) -> Known {
    match sign {
        "+" => Known::numeral(left + right, whole),
        "-" => Known::numeral(left - right, whole),
        "*" => Known::numeral(left * right, whole),
        "**" => Known::numeral(left.powf(right), whole && right >= 0.0),
        "/" if right != 0.0 => Known::numeral(left / right, false),
        "//" if right != 0.0 => Known::numeral((left / right).floor(), whole),
        "%" if right != 0.0 => Known::numeral(right.mul_add(-(left / right).floor(), left), whole),
        _ => Known::UNKNOWN,
    }
}
