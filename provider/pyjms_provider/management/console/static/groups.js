// The groups in which a form shows many attributes. What no group names comes in the first one, so a plug-in's attributes have a place, too.

const QUEUE = [
  ["Order and consumers", ["name", "type", "priorities", "key", "partitions", "exclusive", "groups", "non_destructive", "paused"]],
  ["Size", ["max_messages", "max_bytes", "overflow", "block_timeout_ms"]],
  ["Redelivery and dead letters", ["max_deliveries", "max_failures", "redelivery_delay_ms", "redelivery_multiplier", "max_redelivery_delay_ms", "non_blocking_redelivery", "dead_letter", "expiry_queue"]],
  ["What senders say, and what counts instead", ["min_time_to_live_ms", "max_time_to_live_ms", "time_to_live_ms", "delivery_mode", "priority", "duplicate_window_ms", "duplicate_count"]],
  ["Alerts", ["alert_messages", "alert_bytes", "alert_age_ms", "alert_message_bytes", "alert_repeat_gap_ms"]],
];
const GROUPS = new Map([["queue", QUEUE]]);

// [[title, fields], …] of a category's fields, in the order of the groups; one group without a title where there are none.
export function groupsOf(category, fields) {
  const groups = GROUPS.get(category);
  if (groups === undefined) return [[null, fields]];
  const known = new Set(groups.flatMap(([, names]) => names));
  return groups.map(([title, names], index) => {
    const own = names.map((name) => fields.find((field) => field.name === name)).filter((field) => field !== undefined);
    return [title, index === 0 ? [...own, ...fields.filter((field) => !known.has(field.name))] : own];
  }).filter(([, own]) => own.length > 0);
}
