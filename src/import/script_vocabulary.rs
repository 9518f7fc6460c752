//! Tokens that a script adds to its tokenizer, for which the model's embedding has further rows.

use super::imported::ImportedPlan;
use super::own_loop::calls;
use super::python::ScriptReader;
use super::rows::not_modelled;
use super::script_doubts::code;

/// Says that the embedding grows by tokens whose number is not known: those that the data or a file tells. A few that are
/// written out, or stand under constants' names, do not matter beside a vocabulary.
pub fn say(imported: &mut ImportedPlan, reader: &ScriptReader, text: &str) {
    if !code(text).any(|line| line.contains("resize_token_embeddings(")) {
        return;
    }
    let added = calls(text, "add_tokens").into_iter().filter_map(|given| given.into_iter().next());
    let open = |tokens: &String| {
        let tokens = tokens.trim();
        // `AddedToken(…)` is one, whatever its text.
        let single = tokens.split('(').next().is_some_and(|name| name.rsplit('.').next() == Some("AddedToken"));
        let comprehension = tokens.contains(" for ") && tokens.contains(" in ");
        let written = single || tokens.starts_with(['[', '"', '\'', '(', '{']) && !comprehension;
        let constant = tokens.chars().all(|letter| letter.is_ascii_uppercase() || matches!(letter, '_' | '.'));
        !written && !constant && reader.expression(tokens).is_none()
    };
    if let Some(tokens) = added.into_iter().find(open) {
        let path = reader.name();
        not_modelled(imported, &format!("{path}: the rows that add_tokens({}) adds to the embedding", tokens.trim()));
    }
}
