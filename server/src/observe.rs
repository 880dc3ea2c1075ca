//! What is read only when metrics are collected: memory, connections, budgets, and facts about the build.

use std::sync::{Arc, Weak};

use accelerd_kernels::{Device, KernelStats, LeftStats};
use opentelemetry::{KeyValue, metrics::AsyncInstrument};

use crate::{
    collections::Totals,
    listen::Reactor,
    serve::App,
    transport::{memory::Kind, registry::Connections},
};

/// Lets the daemon's meter read `app`, `connections` and `reactors`. Keeps none of them alive.
pub(crate) fn observe(app: &Arc<App>, connections: &Arc<Connections>, reactors: &Arc<[Reactor]>) {
    self::reactors(app, reactors);
    memory(app);
    kernels(app);
    left(app);
    messages(app);
    collections(app);
    models(app);
    facts(app);
    let meter = app.metrics.meter();
    let now = Arc::downgrade(connections);
    meter
        .u64_observable_gauge("accelerd_connections")
        .with_description("Connections now.")
        .with_callback(move |gauge| with(&now, |connections| gauge.observe(connections.now() as u64, &[])))
        .build();
    let refused = Arc::downgrade(connections);
    meter
        .u64_observable_counter("accelerd_connections_refused")
        .with_description("Connections closed because there were too many.")
        .with_callback(move |counter| with(&refused, |connections| counter.observe(connections.refused(), &[])))
        .build();
    let shed = Arc::downgrade(connections);
    meter
        .u64_observable_counter("accelerd_connections_shed")
        .with_description("Idle connections closed to let another one in.")
        .with_callback(move |counter| with(&shed, |connections| counter.observe(connections.shed(), &[])))
        .build();
    let stalled = Arc::downgrade(connections);
    meter
        .u64_observable_counter("accelerd_calls_stalled")
        .with_description("Calls ended because their request was not sent on, or their answer not received.")
        .with_callback(move |counter| with(&stalled, |connections| counter.observe(connections.stalled(), &[])))
        .build();
}

fn reactors(app: &Arc<App>, reactors: &Arc<[Reactor]>) {
    let meter = app.metrics.meter();
    let label = |at: usize| [KeyValue::new("reactor", at.to_string())];
    let all = Arc::downgrade(reactors);
    meter
        .u64_observable_gauge("accelerd_reactor_connections")
        .with_description("Connections that a reactor thread serves now.")
        .with_callback(move |gauge| {
            let each = |(at, one): (usize, &Reactor)| gauge.observe(one.connections() as u64, &label(at));
            with(&all, |all| all.iter().enumerate().for_each(each));
        })
        .build();
    let all = Arc::downgrade(reactors);
    meter
        .f64_observable_counter("accelerd_reactor_busy_seconds")
        .with_description("Time that a reactor thread was at work and did not wait.")
        .with_callback(move |counter| {
            let each = |(at, one): (usize, &Reactor)| counter.observe(one.busy().as_secs_f64(), &label(at));
            with(&all, |all| all.iter().enumerate().for_each(each));
        })
        .build();
}

fn with<T: ?Sized>(subject: &Weak<T>, look: impl FnOnce(&T)) {
    if let Some(subject) = subject.upgrade() {
        look(&subject);
    }
}

fn memory(app: &Arc<App>) {
    let weak = Arc::downgrade(app);
    app.metrics
        .meter()
        .u64_observable_gauge("accelerd_device_memory_bytes")
        .with_description("Memory of a device, by state: total, used and reserved by the pool, and the pool's peak.")
        .with_callback(move |gauge| with(&weak, |app| device_memory(app, gauge)))
        .build();
    let weak = Arc::downgrade(app);
    app.metrics
        .meter()
        .u64_observable_gauge("accelerd_device_lost")
        .with_description("1 where a device was taken out after an error that poisons its context.")
        .with_callback(move |gauge| {
            with(&weak, |app| {
                for (device, lost) in app.engine.devices() {
                    gauge.observe(lost.is_some().into(), &[KeyValue::new("device", device.id().to_string())]);
                }
            });
        })
        .build();
}

fn device_memory(app: &App, gauge: &dyn AsyncInstrument<u64>) {
    for (device, _) in app.engine.devices() {
        let name = device.id().to_string();
        let say = |state: &'static str, bytes| {
            gauge.observe(bytes, &[KeyValue::new("device", name.clone()), KeyValue::new("state", state)]);
        };
        say("total", device.info().memory_bytes);
        if let Some(pool) = device.pool_stats() {
            say("used", pool.used_bytes);
            say("reserved", pool.reserved_bytes);
            say("peak", pool.peak_bytes);
        }
    }
}

fn kernels(app: &Arc<App>) {
    let labels =
        |device: &Device, kernel| [KeyValue::new("kernel", kernel), KeyValue::new("device", device.id().to_string())];
    let weak = Arc::downgrade(app);
    let meter = app.metrics.meter();
    meter
        .u64_observable_counter("accelerd_kernel_calls")
        .with_description("Launches of a kernel.")
        .with_callback(move |counter| {
            with(&weak, |app| {
                each_kernel(app, |device, kernel| counter.observe(kernel.calls, &labels(device, kernel.name)));
            });
        })
        .build();
    let weak = Arc::downgrade(app);
    meter
        .f64_observable_counter("accelerd_kernel_seconds")
        .with_description("Device time of a kernel.")
        .with_callback(move |counter| {
            with(&weak, |app| {
                each_kernel(app, |device, kernel| {
                    counter.observe(kernel.nanos as f64 / 1e9, &labels(device, kernel.name));
                });
            });
        })
        .build();
}

fn each_kernel(app: &App, look: impl Fn(&Device, &KernelStats)) {
    for (device, _) in app.engine.devices() {
        device.kernel_stats().iter().for_each(|kernel| look(&device, kernel));
    }
}

fn left(app: &Arc<App>) {
    let meter = app.metrics.meter();
    let counter = |name, description, measure: fn(&LeftStats) -> u64| {
        let weak = Arc::downgrade(app);
        meter
            .u64_observable_counter(name)
            .with_description(description)
            .with_callback(move |counter| with(&weak, |app| device_left(app, measure, counter)))
            .build();
    };
    counter("accelerd_left_items", "Items that a GPU left to the CPU, by reason.", |left| left.items);
    counter("accelerd_left_bytes", "Bytes of the items that a GPU left to the CPU, by reason.", |left| left.bytes);
}

fn device_left(app: &App, measure: fn(&LeftStats) -> u64, counter: &dyn AsyncInstrument<u64>) {
    for (device, _) in app.engine.devices() {
        let name = device.id().to_string();
        for left in device.left_stats() {
            let (lane, reason) = (KeyValue::new("lane", left.op), KeyValue::new("reason", left.reason));
            counter.observe(measure(&left), &[lane, reason, KeyValue::new("device", name.clone())]);
        }
    }
}

fn messages(app: &Arc<App>) {
    let meter = app.metrics.meter();
    let held = Arc::downgrade(&app.messages);
    meter
        .u64_observable_gauge("accelerd_message_memory_bytes")
        .with_description("Bytes that connections, request messages and unsent answers hold, by kind.")
        .with_callback(move |gauge| {
            with(&held, |memory| {
                for kind in Kind::ALL {
                    gauge.observe(memory.held_by(kind), &[KeyValue::new("kind", kind.name())]);
                }
            });
        })
        .build();
    let refused = Arc::downgrade(&app.messages);
    meter
        .u64_observable_counter("accelerd_messages_refused")
        .with_description("Charges to the memory of messages that were refused, because too many bytes were held.")
        .with_callback(move |counter| with(&refused, |memory| counter.observe(memory.refused(), &[])))
        .build();
}

fn collections(app: &Arc<App>) {
    let meter = app.metrics.meter();
    let gauge = |name, description, measure: fn(&Totals) -> u64| {
        let weak = Arc::downgrade(app);
        meter
            .u64_observable_gauge(name)
            .with_description(description)
            .with_callback(move |gauge| {
                with(&weak, |app| gauge.observe(measure(&app.similarity.collections.totals()), &[]));
            })
            .build();
    };
    gauge("accelerd_collections", "Collections that serve.", |totals| totals.collections);
    gauge("accelerd_collection_points", "Points of all collections.", |totals| totals.points);
    gauge("accelerd_collection_memory_bytes", "Host memory of all collections.", |totals| totals.host_bytes);
    gauge("accelerd_collection_device_bytes", "Device memory of all collections.", |totals| totals.device_bytes);
    gauge(
        "accelerd_collection_budget_bytes",
        "Bytes of store.memory_limit in use, those of writes under way included.",
        |totals| totals.held_bytes,
    );
    gauge("accelerd_collection_budget_limit_bytes", "store.memory_limit; 0 means no cap.", |totals| totals.limit_bytes);
}

fn models(app: &Arc<App>) {
    let meter = app.metrics.meter();
    let count = Arc::downgrade(app);
    meter
        .u64_observable_gauge("accelerd_models")
        .with_description("Models that are loaded, the built-in one included.")
        .with_callback(move |gauge| with(&count, |app| gauge.observe(app.embedder.models().len() as u64, &[])))
        .build();
    let bytes = Arc::downgrade(app);
    meter
        .u64_observable_gauge("accelerd_model_memory_bytes")
        .with_description("Bytes of the weights of all loaded models, as their files have them.")
        .with_callback(move |gauge| {
            with(&bytes, |app| gauge.observe(app.embedder.models().iter().map(|model| model.bytes()).sum(), &[]));
        })
        .build();
}

fn facts(app: &Arc<App>) {
    let meter = app.metrics.meter();
    meter
        .u64_observable_gauge("accelerd_build_info")
        .with_description("1, labelled with the version.")
        .with_callback(|gauge| gauge.observe(1, &[KeyValue::new("version", env!("CARGO_PKG_VERSION"))]))
        .build();
    if let Some(reason) = app.fallback.clone() {
        meter
            .u64_observable_gauge("accelerd_fallback_info")
            .with_description("1 where no GPU is used, labelled with why.")
            .with_callback(move |gauge| gauge.observe(1, &[KeyValue::new("reason", reason.clone())]))
            .build();
    }
}
