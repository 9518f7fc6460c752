//! Which GPUs of a cluster are the job's.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use crate::order::StableOrder;
use crate::reading::{DeviceLocation, DeviceSample};

/// What says whose a GPU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Node,
    Pod,
    Namespace,
    Container,
    Job,
}

impl Label {
    const NAMED: [(&'static str, Self); 5] = [
        ("node", Self::Node),
        ("pod", Self::Pod),
        ("namespace", Self::Namespace),
        ("container", Self::Container),
        ("job", Self::Job),
    ];

    fn of(self, location: &DeviceLocation) -> Option<&str> {
        match self {
            Self::Node => Some(&location.node),
            Self::Pod => location.pod.as_deref(),
            Self::Namespace => location.namespace.as_deref(),
            Self::Container => location.container.as_deref(),
            Self::Job => location.job.as_deref(),
        }
    }
}

/// A job by the labels of its GPUs: `namespace=ml,pod=llama-worker-*`. Of one label any value may match, of several each
/// must.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSelector {
    text: String,
    matchers: Vec<(Label, String)>,
}

impl fmt::Display for JobSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What is no selector.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("`{0}` selects no job; write it like job=4711, namespace=ml,pod=llama-* or node=gpu01,node=gpu02")]
pub struct SelectorError(String);

impl std::str::FromStr for JobSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let matcher = |part: &str| {
            let (name, pattern) = part.split_once('=')?;
            let (_, label) = Label::NAMED.iter().find(|(known, _)| *known == name.trim())?;
            Some((*label, pattern.trim().to_owned())).filter(|(_, pattern)| !pattern.is_empty())
        };
        let matchers: Option<Vec<(Label, String)>> = text.split(',').map(matcher).collect();
        let matchers = matchers.ok_or_else(|| SelectorError(text.to_owned()))?;
        Ok(Self { text: text.to_owned(), matchers })
    }
}

impl JobSelector {
    /// Whether a GPU is the job's.
    #[must_use]
    pub fn selects(&self, location: &DeviceLocation) -> bool {
        self.matchers.iter().all(|(label, _)| {
            let mut same = self.matchers.iter().filter(|(other, _)| other == label);
            label.of(location).is_some_and(|value| same.any(|(_, pattern)| is_match(pattern, value)))
        })
    }
}

/// Whether a pattern, in which `*` is any text, is that text.
fn is_match(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// A job that runs on the cluster, as labels tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningJob {
    /// What selects it.
    pub selector: String,
    /// Its GPUs.
    pub gpus: usize,
    /// Its nodes.
    pub nodes: usize,
}

/// The jobs that run: by Slurm's number, else by namespace and the stem that its pods' names have in common. The largest
/// first.
#[must_use]
pub fn running(devices: &[DeviceSample]) -> Vec<RunningJob> {
    let mut jobs: BTreeMap<String, (usize, std::collections::BTreeSet<&str>)> = BTreeMap::new();
    for location in devices.iter().filter_map(|device| device.location.as_deref()) {
        if let Some(selector) = selector_of(location) {
            let (gpus, nodes) = jobs.entry(selector).or_default();
            *gpus += 1;
            nodes.insert(&location.node);
        }
    }
    let mut jobs: Vec<RunningJob> =
        jobs.into_iter().map(|(selector, (gpus, nodes))| RunningJob { selector, gpus, nodes: nodes.len() }).collect();
    jobs.order_by(|one, other| other.gpus.cmp(&one.gpus).then_with(|| one.selector.cmp(&other.selector)));
    jobs
}

fn selector_of(location: &DeviceLocation) -> Option<String> {
    if let Some(job) = &location.job {
        return Some(format!("job={job}"));
    }
    let pod = location.pod.as_deref()?;
    let namespace = location.namespace.as_deref().map_or_else(String::new, |name| format!("namespace={name},"));
    let stem = stem(pod);
    let any = if stem.len() < pod.len() { "*" } else { "" };
    Some(format!("{namespace}pod={stem}{any}"))
}

/// The name of a pod without its number and its role: `llama-worker-12` and `llama-master-0` are `llama-`.
fn stem(pod: &str) -> &str {
    let without = |text: &'_ str, ends: &[&str]| ends.iter().find_map(|end| text.strip_suffix(end)).map(str::len);
    let number = pod.trim_end_matches(|c: char| c.is_ascii_digit());
    if number.len() == pod.len() || !number.ends_with('-') {
        return pod;
    }
    let name = number.trim_end_matches('-');
    let role = without(name, &["-worker", "-master", "-launcher", "-node"]);
    &pod[..role.map_or(number.len(), |length| length + 1)]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::reading::Absence;

    fn at(node: &str, pod: Option<&str>, job: Option<&str>) -> DeviceSample {
        let namespace = pod.map(|_| "ml".to_owned());
        let (pod, job) = (pod.map(str::to_owned), job.map(str::to_owned));
        let location = DeviceLocation { node: node.to_owned(), pod, namespace, job, ..DeviceLocation::default() };
        DeviceSample { location: Some(Arc::new(location)), ..DeviceSample::absent(0, &Absence::NotRead) }
    }

    #[test]
    fn the_jobs_that_run_are_found_and_their_selectors_select_them() {
        let devices = [
            at("a", Some("llama-master-0"), None),
            at("a", Some("llama-worker-0"), None),
            at("b", Some("llama-worker-1"), None),
            at("b", None, Some("4711")),
            at("c", Some("notebook"), None),
            at("c", None, None),
        ];
        let found = running(&devices);
        let selectors: Vec<(&str, usize, usize)> =
            found.iter().map(|job| (job.selector.as_str(), job.gpus, job.nodes)).collect();
        assert_eq!(
            selectors,
            [("namespace=ml,pod=llama-*", 3, 2), ("job=4711", 1, 1), ("namespace=ml,pod=notebook", 1, 1)]
        );
        for job in found {
            let selector: JobSelector = job.selector.parse().unwrap();
            let selected = devices.iter().filter(|device| selector.selects(device.location.as_ref().unwrap())).count();
            assert_eq!(selected, job.gpus, "{selector}");
        }
    }

    #[test]
    fn values_of_one_label_are_joined_and_labels_narrow() {
        let nodes: JobSelector = "node=a,node=b*".parse().unwrap();
        let count = |selector: &JobSelector| {
            let devices = [at("a", Some("x-1"), None), at("b7", Some("y-1"), None), at("c", None, None)];
            devices.iter().filter(|device| selector.selects(device.location.as_ref().unwrap())).count()
        };
        assert_eq!(count(&nodes), 2);
        assert_eq!(count(&"node=a,node=b*,pod=y-*".parse().unwrap()), 1);
        for text in ["", "llama", "colour=red", "pod="] {
            assert!(text.parse::<JobSelector>().is_err(), "{text}");
        }
        assert!(
            is_match("a*c*e", "abcde") && !is_match("a*c*e", "abde") && !is_match("ab", "abc") && is_match("*", "")
        );
    }
}
