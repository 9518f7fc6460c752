//! The rack of a node by its name, where a site numbers its hosts so and no label says it.

use std::str::FromStr;

use regex::Regex;

/// A regular expression for the names of nodes: what its first group matches is the rack, else all that it matches.
#[derive(Debug, Clone)]
pub struct RackPattern(Regex);

impl FromStr for RackPattern {
    type Err = regex::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Regex::new(text).map(Self)
    }
}

impl RackPattern {
    /// The rack of a node; none where its name is another kind of name.
    #[must_use]
    pub fn rack_of<'a>(&self, node: &'a str) -> Option<&'a str> {
        let found = self.0.captures(node)?;
        found.get(1).or_else(|| found.get(0)).map(|found| found.as_str()).filter(|rack| !rack.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_group_or_the_whole_match_is_the_rack() {
        let rack = |pattern: &str, node| pattern.parse::<RackPattern>().unwrap().rack_of(node).map(str::to_owned);
        assert_eq!(rack(r"^(r\d+)-", "r07-n12"), Some("r07".to_owned()));
        assert_eq!(rack(r"^[a-z]+\d", "gpu3-12"), Some("gpu3".to_owned()));
        assert_eq!(rack(r"^(r\d+)-", "login1"), None);
        assert_eq!(rack("x*", "r07-n12"), None);
    }
}
