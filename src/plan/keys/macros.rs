//! What a line of the tables of keys becomes: a field of its part of the plan, a constant with its path, an entry of
//! the schema, code that reads it, lays it over another and takes it out.

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
    (section($read:path, $part:ty)) => {
        ValueKind::Section
    };
    (maybe_empty($read:path, $part:ty)) => {
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

/// The type of a key's value.
macro_rules! value {
    (whole($max:expr)) => { u64 };
    (from_zero($max:expr)) => { u64 };
    (choice($choices:expr)) => { u64 };
    (wholes($max:expr)) => { Vec<u64> };
    (positive($max:expr)) => { f64 };
    (amount($max:expr)) => { f64 };
    (share()) => { f64 };
    (flag()) => { bool };
    (flag_or_amount()) => { bool };
    (text()) => { String };
    (texts()) => { Vec<String> };
    (word($words:ident)) => { $words };
    (words($words:ident)) => { Vec<$words> };
    (section($read:path, $part:ty)) => { $part };
    (maybe_empty($read:path, $part:ty)) => { $part };
    (recomputation()) => { Checkpointing };
    (hf_config()) => { HfConfig };
    (trace()) => { ModelTrace };
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
    ($reader:ident, $path:expr, section($read:path, $part:ty)) => {
        $reader.section($path, $read)
    };
    ($reader:ident, $path:expr, maybe_empty($read:path, $part:ty)) => {
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
    ($under:expr, $over:expr, section($read:path, $part:ty)) => {
        match (&mut $under, &$over) {
            (Some(under), Some(over)) => under.lay(over),
            (under, Some(over)) => *under = Some(over.clone()),
            (_, None) => {}
        }
    };
    ($under:expr, $over:expr, maybe_empty($read:path, $part:ty)) => {
        lay!($under, $over, section($read, $part))
    };
    ($under:expr, $over:expr, $kind:ident($($arg:tt)*)) => {
        if $over.is_some() {
            $under.clone_from(&$over);
        }
    };
}

/// Takes a key out, if `wanted` is it or stands below it.
macro_rules! clear {
    ($field:expr, $path:expr, $wanted:expr, section($read:path, $part:ty)) => {
        if $wanted == $path {
            $field = None;
        } else if let Some(group) = &mut $field {
            group.clear($wanted);
        }
    };
    ($field:expr, $path:expr, $wanted:expr, maybe_empty($read:path, $part:ty)) => {
        clear!($field, $path, $wanted, section($read, $part))
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

/// A section: its part of the plan, a module with the path of each key, a table for the schema, a function that reads
/// it, and what lays one over another.
macro_rules! section {
    ($table:ident, $read:ident, $part:ident, $section:literal, $about:literal, {
        $( $field:ident $(as $name:literal)? : $kind:ident($($arg:tt)*), $line:literal; )*
    }) => {
        #[doc = concat!("`", $section, ":` ", $about, ". Keys that are absent are none.")]
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $part {
            $(
                #[doc = concat!("`", path!($section, $field $(, $name)?), "`: ", $line, ".")]
                pub $field: Option<value!($kind($($arg)*))>,
            )*
        }

        #[doc = concat!("Paths of the keys of `", $section, "`, by the names of their fields in [`super::", stringify!($part), "`].")]
        #[allow(non_upper_case_globals, reason = "written as in a plan")]
        pub mod $read {
            $(
                #[doc = concat!("`", path!($section, $field $(, $name)?), "`: ", $line, ".")]
                pub const $field: &str = path!($section, $field $(, $name)?);
            )*
        }

        const $table: &[PlanKey] = &[ $( PlanKey {
            path: $read::$field,
            kind: kind!($kind($($arg)*)),
            line: $line,
        }, )* ];

        fn $read(reader: &mut PlanReader<'_>) -> $part {
            $part { $( $field: take!(reader, $read::$field, $kind($($arg)*)), )* }
        }

        impl $part {
            fn lay(&mut self, over: &Self) {
                $( lay!(self.$field, over.$field, $kind($($arg)*)); )*
            }

            fn clear(&mut self, wanted: &str) {
                $( clear!(self.$field, $read::$field, wanted, $kind($($arg)*)); )*
            }
        }
    };
}

/// The plan: its sections in their order, each with the tables of the keys in it, itself included.
macro_rules! plan {
    ($( $section:ident: $part:ident, $about:literal, [$($table:ident),*]; )*) => {
        /// A plan file as read: groups of optional keys. A key that is absent is `None`: nothing is filled in here. What
        /// absent keys come to mean is decided once, by [`crate::predict::Job`].
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Plan {
            $(
                #[doc = concat!("`", stringify!($section), ":` ", $about, ".")]
                pub $section: $part,
            )*
        }

        /// Every key, each section before what stands in it.
        pub(super) fn all() -> Vec<PlanKey> {
            let mut keys = Vec::new();
            $(
                keys.push(PlanKey { path: stringify!($section), kind: ValueKind::Section, line: $about });
                $( keys.extend($table); )*
            )*
            keys
        }

        /// The whole plan.
        pub(super) fn plan(reader: &mut PlanReader<'_>) -> Plan {
            Plan { $( $section: $section(reader), )* }
        }

        impl Plan {
            /// Takes over every key that `over` gives.
            pub(super) fn lay(&mut self, over: &Self) {
                $( self.$section.lay(&over.$section); )*
            }

            /// Takes the key of that dotted path out, with whatever stands below it.
            pub fn clear(&mut self, path: &str) {
                $( self.$section.clear(path); )*
            }
        }
    };
}
