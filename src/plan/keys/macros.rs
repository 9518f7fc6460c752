//! What a line of the tables of keys becomes: an entry of the schema, code that reads it, lays it
//! over another and takes it out.

/// The kind of a key, for the schema.
macro_rules! kind {
    (whole($max:expr)) => {
        ValueKind::Whole { min: 1, max: $max }
    };
    (from_zero($max:expr)) => {
        ValueKind::Whole { min: 0, max: $max }
    };
    (wholes($max:expr)) => {
        ValueKind::Wholes { min: 1, max: $max }
    };
    (choice($choices:expr)) => {
        ValueKind::Choice($choices)
    };
    (positive($max:expr)) => {
        ValueKind::Positive { max: $max }
    };
    (amount($max:expr)) => {
        ValueKind::Amount { max: $max }
    };
    (share()) => {
        ValueKind::Share
    };
    (flag()) => {
        ValueKind::Flag
    };
    (flag_or_amount()) => {
        ValueKind::FlagOrAmount
    };
    (text()) => {
        ValueKind::Text
    };
    (texts()) => {
        ValueKind::Texts
    };
    (word($words:ident)) => {
        ValueKind::Word($words::WORDS)
    };
    (words($words:ident)) => {
        ValueKind::Words($words::WORDS)
    };
    (section($read:path)) => {
        ValueKind::Section
    };
    (maybe_empty($read:path)) => {
        ValueKind::Section
    };
    (recomputation()) => {
        ValueKind::WordOrSection(RecomputeWord::WORDS)
    };
    (hf_config()) => {
        ValueKind::PathOrKeys
    };
    (trace()) => {
        ValueKind::Text
    };
}

/// A key's value out of the text, for its field.
macro_rules! take {
    ($reader:ident, $path:expr, whole($max:expr)) => {
        $reader.whole($path)
    };
    ($reader:ident, $path:expr, from_zero($max:expr)) => {
        $reader.whole($path)
    };
    ($reader:ident, $path:expr, wholes($max:expr)) => {
        $reader.wholes($path)
    };
    ($reader:ident, $path:expr, choice($choices:expr)) => {
        $reader.whole($path)
    };
    ($reader:ident, $path:expr, positive($max:expr)) => {
        $reader.number($path)
    };
    ($reader:ident, $path:expr, amount($max:expr)) => {
        $reader.number($path)
    };
    ($reader:ident, $path:expr, share()) => {
        $reader.number($path)
    };
    ($reader:ident, $path:expr, flag()) => {
        $reader.flag($path)
    };
    ($reader:ident, $path:expr, flag_or_amount()) => {
        $reader.flag($path)
    };
    ($reader:ident, $path:expr, text()) => {
        $reader.text($path)
    };
    ($reader:ident, $path:expr, texts()) => {
        $reader.texts($path)
    };
    ($reader:ident, $path:expr, word($words:ident)) => {
        $reader.word($path, $words::parse)
    };
    ($reader:ident, $path:expr, words($words:ident)) => {
        $reader.words($path, $words::parse)
    };
    ($reader:ident, $path:expr, section($read:path)) => {
        $reader.section($path, $read)
    };
    ($reader:ident, $path:expr, maybe_empty($read:path)) => {
        $reader.maybe_empty($path, $read)
    };
    ($reader:ident, $path:expr, recomputation()) => {
        $reader.recomputation($path)
    };
    ($reader:ident, $path:expr, hf_config()) => {
        $reader.hf_config($path)
    };
    ($reader:ident, $path:expr, trace()) => {
        $reader.text($path).map(ModelTrace::Path)
    };
}

/// A value laid over another: groups of keys are joined key by key.
macro_rules! lay {
    ($under:expr, $over:expr, section($read:path)) => {
        match (&mut $under, &$over) {
            (Some(under), Some(over)) => under.lay(over),
            (under, Some(over)) => *under = Some(over.clone()),
            (_, None) => {}
        }
    };
    ($under:expr, $over:expr, maybe_empty($read:path)) => {
        lay!($under, $over, section($read))
    };
    ($under:expr, $over:expr, $kind:ident($($arg:tt)*)) => {
        if $over.is_some() {
            $under.clone_from(&$over);
        }
    };
}

/// Takes a key out, if `wanted` is it or stands below it.
macro_rules! clear {
    ($field:expr, $path:expr, $wanted:expr, section($read:path)) => {
        if $wanted == $path {
            $field = None;
        } else if let Some(group) = &mut $field {
            group.clear($wanted);
        }
    };
    ($field:expr, $path:expr, $wanted:expr, maybe_empty($read:path)) => {
        clear!($field, $path, $wanted, section($read))
    };
    ($field:expr, $path:expr, $wanted:expr, $kind:ident($($arg:tt)*)) => {
        if $wanted.strip_prefix($path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')) {
            $field = None;
        }
    };
}

macro_rules! path {
    ($section:literal, $field:ident) => {
        concat!($section, ".", stringify!($field))
    };
    ($section:literal, $field:ident, $name:literal) => {
        concat!($section, ".", $name)
    };
}

/// A section: a table for the schema, a function that reads it, and what lays one over another. A field of the
/// part that has no line here does not compile.
macro_rules! section {
    ($table:ident, $read:ident, $part:ident, $section:literal, {
        $( $field:ident $(as $name:literal)? : $kind:ident($($arg:tt)*), $line:literal; )*
    }) => {
        const $table: &[PlanKey] = &[ $( PlanKey {
            path: path!($section, $field $(, $name)?),
            kind: kind!($kind($($arg)*)),
            line: $line,
        }, )* ];

        fn $read(reader: &mut PlanReader<'_>) -> $part {
            $part { $( $field: take!(reader, path!($section, $field $(, $name)?), $kind($($arg)*)), )* }
        }

        impl $part {
            fn lay(&mut self, over: &Self) {
                $( lay!(self.$field, over.$field, $kind($($arg)*)); )*
            }

            fn clear(&mut self, wanted: &str) {
                $( clear!(self.$field, path!($section, $field $(, $name)?), wanted, $kind($($arg)*)); )*
            }
        }
    };
}
