//! A source on a thread of its own that looks when it is asked to: nothing is read while nobody wants it.

use std::io;
use std::sync::mpsc::{self as std_mpsc, SyncSender};
use std::thread;

use tokio::sync::mpsc::Sender;

use super::{Source, SourceError, SourceReport};
use crate::reading::{DeviceSample, Moment, SourceKind};

/// Asks the thread of a source for samples, and ends it when it is dropped.
///
/// As with [`spawn`](super::spawn), the thread is never joined: it may be stuck in the driver for good.
#[derive(Debug)]
pub struct OnDemand {
    requests: SyncSender<()>,
}

impl OnDemand {
    /// Asks for a sample. One that is asked for while the thread is at work is of the time after that.
    pub fn request(&self) {
        // A full queue holds the same wish already.
        let _ = self.requests.try_send(());
    }
}

/// Opens a source on a new thread when it is first asked for, and has it sample at each request.
///
/// Each request is answered with one [`SourceReport::Sample`], or with one [`SourceReport::Failed`] where the source
/// cannot be opened: the next request tries again. So it does where no driver was there ([`SourceKind::Host`]).
///
/// # Errors
/// When the system gives no thread.
pub fn spawn_on_demand<O, C>(mut open: O, clock: C, reports: Sender<SourceReport>) -> io::Result<OnDemand>
where
    O: FnMut() -> Result<Box<dyn Source>, SourceError> + Send + 'static,
    C: Fn() -> Moment + Send + 'static,
{
    let (requests, requested) = std_mpsc::sync_channel(1);
    thread::Builder::new().name("source".to_owned()).spawn(move || {
        let mut source: Option<Box<dyn Source>> = None;
        for () in requested {
            let found = match &source {
                Some(opened) if !is_without_driver(&**opened) => None,
                // A driver may be loaded after this program.
                Some(_) => open().ok().filter(|found| !is_without_driver(&**found)).map(Ok),
                None => Some(open()),
            };
            let opened = match found {
                None => source.as_mut().ok_or(SourceError::Spent),
                Some(found) => found.and_then(|found| {
                    let info = found.info();
                    let opened = source.insert(found);
                    reports.blocking_send(SourceReport::Started(info)).map_err(|_| SourceError::Spent)?;
                    Ok(opened)
                }),
            };
            let report = match opened {
                Ok(source) => {
                    let mut sample = source.sample(clock());
                    sample.devices.iter_mut().for_each(DeviceSample::drop_impossible);
                    SourceReport::Sample(sample)
                }
                Err(why) => SourceReport::Failed(why.to_string()),
            };
            if reports.blocking_send(report).is_err() {
                return;
            }
        }
    })?;
    Ok(OnDemand { requests })
}

/// Whether a source stands in for a driver that was not there when it was opened.
fn is_without_driver(source: &dyn Source) -> bool {
    source.info().kind == SourceKind::Host
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::sync::mpsc;

    use super::*;
    use crate::reading::{Sample, SourceInfo};

    struct CountingSource(SourceKind, Arc<AtomicU64>);

    impl Source for CountingSource {
        fn info(&self) -> SourceInfo {
            SourceInfo { kind: self.0, detail: String::new() }
        }

        fn sample(&mut self, now: Moment) -> Sample {
            self.1.fetch_add(1, Ordering::Relaxed);
            Sample { at: now, ..Sample::default() }
        }
    }

    #[test]
    fn it_is_opened_and_read_when_it_is_asked_and_tried_again_where_it_fails() {
        let read = Arc::new(AtomicU64::new(0));
        let (sender, mut reports) = mpsc::channel(4);
        let (seen, mut tries) = (read.clone(), 0);
        let open = move || {
            tries += 1;
            if tries == 1 {
                Err(SourceError::NoDemo)
            } else {
                Ok(Box::new(CountingSource(SourceKind::Nvml, seen.clone())) as Box<dyn Source>)
            }
        };
        let source = spawn_on_demand(open, || Moment(7), sender).unwrap();
        source.request();
        assert_eq!(reports.blocking_recv(), Some(SourceReport::Failed(SourceError::NoDemo.to_string())));
        assert_eq!(read.load(Ordering::Relaxed), 0);
        source.request();
        assert!(matches!(reports.blocking_recv(), Some(SourceReport::Started(_))));
        assert!(matches!(reports.blocking_recv(), Some(SourceReport::Sample(sample)) if sample.at == Moment(7)));
        source.request();
        assert!(matches!(reports.blocking_recv(), Some(SourceReport::Sample(_))));
        assert_eq!(read.load(Ordering::Relaxed), 2);
        drop(source);
        assert_eq!(reports.blocking_recv(), None);
    }

    #[test]
    fn a_driver_that_comes_later_takes_the_place_of_none() {
        let (sender, mut reports) = mpsc::channel(4);
        let (seen, mut tries) = (Arc::new(AtomicU64::new(0)), 0);
        // The driver is loaded between the second look and the third.
        let open = move || {
            tries += 1;
            let kind = if tries < 3 { SourceKind::Host } else { SourceKind::Nvml };
            Ok(Box::new(CountingSource(kind, seen.clone())) as Box<dyn Source>)
        };
        let source = spawn_on_demand(open, || Moment(7), sender).unwrap();
        let mut next = || {
            source.request();
            let mut started = None;
            loop {
                match reports.blocking_recv() {
                    Some(SourceReport::Started(info)) => started = Some(info.kind),
                    Some(SourceReport::Sample(_)) => return started,
                    other => panic!("{other:?}"),
                }
            }
        };
        assert_eq!(next(), Some(SourceKind::Host));
        assert_eq!(next(), None);
        assert_eq!(next(), Some(SourceKind::Nvml));
        assert_eq!(next(), None);
    }
}
