//! The JSON of smartctl (7.0 or newer) for ATA, SCSI and NVMe. Pure: what is not understood is left out.

use serde_json::Value;
use status::DriveHealth;

/// Bit 3 of its exit status: the drive is failing.
const FAILING: u64 = 1 << 3;
/// Bounds of a temperature that a sensor can mean.
const CELSIUS: std::ops::RangeInclusive<i64> = -60..=200;
/// The longest model and serial number that are kept, in characters; ATA has 40 and 20.
const NAME_CHARS_MAX: usize = 64;
/// The longest message that is kept.
const MESSAGE_CHARS_MAX: usize = 200;
/// The ids of ATA attributes whose raw values all vendors use alike.
const REALLOCATED: u64 = 5;
const REPORTED_UNCORRECTABLE: u64 = 187;
/// The page and the offset of the *percentage used endurance indicator* (ACS-4, 9.5.10).
const SOLID_STATE_PAGE: u64 = 7;
const ENDURANCE_OFFSET: u64 = 8;
/// Both go to 255 %, which means that or more (NVMe 2.0, 5.16.1.3; SBC-4, 6.4.9).
const WEAR_PERCENT_MAX: u64 = 255;

/// What an answer says of a drive; an error: what smartctl says why it has read nothing, in one line.
pub(super) fn parse(answer: &[u8]) -> Result<DriveHealth, String> {
    let all: Value = serde_json::from_slice(answer).map_err(|_| "smartctl has printed no JSON".to_owned())?;
    let nvme = &all["nvme_smart_health_information_log"];
    let scsi_temperature = &all["scsi_temperature"]["current"];
    let temperature = [&all["temperature"]["current"], scsi_temperature, &nvme["temperature"]];
    let wear = [
        &all["endurance_used"]["current_percent"],
        &nvme["percentage_used"],
        &all["scsi_percentage_used_endurance_indicator"],
        endurance(&all),
    ];
    let spare = [&all["spare_available"]["current_percent"], &nvme["available_spare"]];
    let hours = [&all["power_on_time"]["hours"], &nvme["power_on_hours"]];
    let of_attribute = |id| first_number(&attribute(&all, id)["raw"]);
    let health = DriveHealth {
        read_unix_ms: 0,
        assessment: assessment(&all),
        temperature_celsius: temperature
            .into_iter()
            .find_map(Value::as_i64)
            .filter(|celsius| CELSIUS.contains(celsius))
            .and_then(|celsius| i16::try_from(celsius).ok()),
        wear_percent: percent(wear, WEAR_PERCENT_MAX),
        available_spare_percent: percent(spare, 100),
        power_on_hours: hours.into_iter().find_map(Value::as_u64),
        media_errors: nvme["media_errors"]
            .as_u64()
            .or_else(|| uncorrected(&all["scsi_error_counter_log"]))
            .or_else(|| of_attribute(REPORTED_UNCORRECTABLE)),
        reallocated_sectors: all["scsi_grown_defect_list"].as_u64().or_else(|| of_attribute(REALLOCATED)),
        model: name(&all["model_name"]),
        serial: name(&all["serial_number"]),
    };
    // A model and a serial number alone are no health: a device without SMART has them, too.
    let told = DriveHealth { model: None, serial: None, ..health.clone() };
    if told == DriveHealth::default() { Err(why_nothing(&all)) } else { Ok(health) }
}

fn assessment(all: &Value) -> Option<String> {
    let is_failing = all["smartctl"]["exit_status"].as_u64().is_some_and(|bits| bits & FAILING != 0);
    match all["smart_status"]["passed"].as_bool() {
        Some(true) if !is_failing => Some("passed".into()),
        None if !is_failing => None,
        _ => Some("failing".into()),
    }
}

fn percent<const N: usize>(places: [&Value; N], max: u64) -> Option<u8> {
    let found = places.into_iter().find_map(Value::as_u64).filter(|percent| *percent <= max);
    found.and_then(|percent| u8::try_from(percent).ok())
}

/// The value of an element of an array for which something holds; null where there is none.
fn find(array: &Value, mut is_it: impl FnMut(&Value) -> bool) -> &Value {
    const NONE: &Value = &Value::Null;
    array.as_array().and_then(|all| all.iter().find(|one| is_it(one))).unwrap_or(NONE)
}

fn attribute(all: &Value, id: u64) -> &Value {
    find(&all["ata_smart_attributes"]["table"], |row| row["id"].as_u64() == Some(id))
}

fn endurance(all: &Value) -> &Value {
    let page = find(&all["ata_device_statistics"]["pages"], |page| {
        page["number"].as_u64() == Some(SOLID_STATE_PAGE)
    });
    // A statistic that is supported and not valid has a value, too.
    let is_it = |row: &Value| {
        row["offset"].as_u64() == Some(ENDURANCE_OFFSET) && row["flags"]["valid"].as_bool() != Some(false)
    };
    &find(&page["table"], is_it)["value"]
}

/// Six bytes in which vendors keep more than a count: smartctl's text begins with the count.
fn first_number(raw: &Value) -> Option<u64> {
    let text = raw["string"].as_str().and_then(|text| text.split_whitespace().next()?.parse().ok());
    text.or_else(|| raw["value"].as_u64())
}

/// Of reads, writes and verifications; none where the log has none of them.
fn uncorrected(log: &Value) -> Option<u64> {
    let counts = ["read", "write", "verify"].map(|kind| log[kind]["total_uncorrected_errors"].as_u64());
    counts.into_iter().flatten().reduce(u64::saturating_add)
}

fn name(value: &Value) -> Option<String> {
    value.as_str().map(|text| one_line(text, NAME_CHARS_MAX)).filter(|text| !text.is_empty())
}

/// The first error of its messages, or else the last message.
fn why_nothing(all: &Value) -> String {
    let messages = &all["smartctl"]["messages"];
    let error = find(messages, |message| message["severity"].as_str() == Some("error"));
    let last = || messages.as_array().and_then(|all| all.last());
    let said = error["string"].as_str().or_else(|| last()?["string"].as_str());
    match said.map(|text| one_line(text, MESSAGE_CHARS_MAX)).filter(|text| !text.is_empty()) {
        Some(text) => text,
        None => "the device has no SMART that smartctl reads".into(),
    }
}

fn one_line(text: &str, chars_max: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().filter(|c| !c.is_control()).take(chars_max).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As smartctl 7.3 prints it for a SATA SSD.
    const ATA: &str = r#"{"json_format_version": [1, 0],
        "smartctl": {"version": [7, 3], "svn_revision": "5338", "argv": ["smartctl", "--json"], "exit_status": 64},
        "device": {"name": "/dev/sda", "info_name": "/dev/sda [SAT]", "type": "sat", "protocol": "ATA"},
        "model_family": "Intel S4510 Series", "model_name": "INTEL SSDSC2KB480G8", "serial_number": "PHYF0001  480BGN",
        "user_capacity": {"blocks": 937703088, "bytes": 480103981056}, "rotation_rate": 0,
        "smart_support": {"available": true, "enabled": true}, "power_mode": {"ata_value": 255, "name": "ACTIVE or IDLE"},
        "smart_status": {"passed": true},
        "ata_smart_attributes": {"revision": 1, "table": [
          {"id": 5, "name": "Reallocated_Sector_Ct", "value": 99, "worst": 99, "thresh": 0, "when_failed": "",
           "flags": {"value": 50, "string": "-O--CK ", "prefailure": false}, "raw": {"value": 131075, "string": "3 (0 2)"}},
          {"id": 9, "name": "Power_On_Hours", "value": 100, "raw": {"value": 17219, "string": "17219"}},
          {"id": 187, "name": "Reported_Uncorrect", "value": 100, "raw": {"value": 2, "string": "2"}},
          {"id": 194, "name": "Temperature_Celsius", "value": 100, "raw": {"value": 27, "string": "27"}}]},
        "power_on_time": {"hours": 17219}, "power_cycle_count": 31, "temperature": {"current": 27},
        "ata_smart_error_log": {"summary": {"revision": 1, "count": 7}},
        "ata_device_statistics": {"pages": [{"number": 1, "table": [{"offset": 8, "value": 31}]},
          {"number": 7, "name": "Solid State Device Statistics", "revision": 1, "table": [
          {"offset": 8, "name": "Percentage Used Endurance Indicator", "size": 1, "value": 91,
           "flags": {"value": 192, "string": "---", "valid": true, "normalized": false}}]}]}}"#;

    /// As smartctl 7.3 prints it for a SAS SSD.
    const SAS: &str = r#"{"json_format_version": [1, 0], "smartctl": {"version": [7, 3], "exit_status": 8},
        "device": {"name": "/dev/sdb", "info_name": "/dev/sdb", "type": "scsi", "protocol": "SCSI"},
        "scsi_vendor": "TOSHIBA", "scsi_product": "PX05SVB096", "scsi_model_name": "TOSHIBA PX05SVB096",
        "model_name": "TOSHIBA PX05SVB096", "serial_number": "70S0A01J", "device_type": {"scsi_value": 0, "name": "disk"},
        "smart_support": {"available": true, "enabled": true}, "temperature_warning": {"enabled": true},
        "smart_status": {"passed": false, "scsi": {"asc": 93, "ascq": 115, "ie_string": "MEDIA IMPENDING FAILURE"}},
        "scsi_percentage_used_endurance_indicator": 4, "temperature": {"current": 41, "drive_trip": 70},
        "power_on_time": {"hours": 24579, "minutes": 53}, "scsi_grown_defect_list": 12,
        "scsi_error_counter_log": {
          "read": {"total_errors_corrected": 0, "gigabytes_processed": "3237519.423", "total_uncorrected_errors": 3},
          "write": {"total_errors_corrected": 0, "gigabytes_processed": "1086347.509", "total_uncorrected_errors": 1}}}"#;

    /// As smartctl 7.4 prints it for an NVMe SSD.
    const NVME: &str = r#"{"json_format_version": [1, 0], "smartctl": {"version": [7, 4], "exit_status": 0},
        "device": {"name": "/dev/nvme0n1", "info_name": "/dev/nvme0n1", "type": "nvme", "protocol": "NVMe"},
        "model_name": "SAMSUNG MZQL2960HCJR-00A07", "serial_number": "S64FNE0R", "firmware_version": "GDC5602Q",
        "smart_support": {"available": true, "enabled": true}, "smart_status": {"passed": true, "nvme": {"value": 0}},
        "nvme_smart_health_information_log": {"critical_warning": 0, "temperature": 38, "available_spare": 98,
          "available_spare_threshold": 10, "percentage_used": 104, "data_units_read": 2154843, "power_cycles": 21,
          "power_on_hours": 9127, "unsafe_shutdowns": 12, "media_errors": 5, "num_err_log_entries": 0},
        "temperature": {"current": 38}, "power_on_time": {"hours": 9127}, "spare_available": {"current_percent": 98},
        "endurance_used": {"current_percent": 104}, "local_time": {"time_t": 1795738821}}"#;

    fn said(answer: &str) -> DriveHealth {
        parse(answer.as_bytes()).expect("health")
    }

    #[test]
    fn drives_of_all_protocols_are_understood() {
        let ata = DriveHealth {
            assessment: Some("passed".into()),
            temperature_celsius: Some(27),
            wear_percent: Some(91),
            power_on_hours: Some(17_219),
            media_errors: Some(2),
            reallocated_sectors: Some(3),
            model: Some("INTEL SSDSC2KB480G8".into()),
            serial: Some("PHYF0001 480BGN".into()),
            ..DriveHealth::default()
        };
        assert_eq!(said(ATA), ata);
        let sas = DriveHealth {
            assessment: Some("failing".into()),
            temperature_celsius: Some(41),
            wear_percent: Some(4),
            power_on_hours: Some(24_579),
            media_errors: Some(4),
            reallocated_sectors: Some(12),
            model: Some("TOSHIBA PX05SVB096".into()),
            serial: Some("70S0A01J".into()),
            ..DriveHealth::default()
        };
        assert_eq!(said(SAS), sas);
        let nvme = DriveHealth {
            assessment: Some("passed".into()),
            temperature_celsius: Some(38),
            wear_percent: Some(104),
            available_spare_percent: Some(98),
            power_on_hours: Some(9127),
            media_errors: Some(5),
            model: Some("SAMSUNG MZQL2960HCJR-00A07".into()),
            serial: Some("S64FNE0R".into()),
            ..DriveHealth::default()
        };
        assert_eq!(said(NVME), nvme);
        // Before 7.4 NVMe has no names in common with the others.
        let log_alone = NVME.replace("endurance_used", "x").replace("spare_available", "y");
        assert_eq!(said(&log_alone), nvme);
    }

    #[test]
    fn the_exit_status_tells_of_a_failing_drive_too() {
        let all = said(r#"{"smartctl": {"exit_status": 200}, "temperature": {"current": -5}}"#);
        assert_eq!((all.assessment.as_deref(), all.temperature_celsius), (Some("failing"), Some(-5)));
        let all = said(r#"{"smartctl": {"exit_status": 196}, "smart_status": {"passed": true}}"#);
        assert_eq!(all.assessment.as_deref(), Some("passed"));
        let all = said(r#"{"smartctl": {"exit_status": 8}, "smart_status": {"passed": true}}"#);
        assert_eq!(all.assessment.as_deref(), Some("failing"));
    }

    #[test]
    fn what_makes_no_sense_is_left_out_and_nothing_else_with_it() {
        let rest = r#""smart_status": {"passed": true}"#;
        let rows = [
            r#""temperature": {"current": 2000}"#,
            r#""temperature": {"current": "warm"}"#,
            r#""temperature": 7"#,
            r#""power_on_time": {"hours": -1}"#,
            r#""power_on_time": {"hours": 340282366920938463463374607431768211455}"#,
            r#""power_on_time": {"hours": 1e300}"#,
            r#""endurance_used": {"current_percent": 256}"#,
            r#""spare_available": {"current_percent": 101}"#,
            r#""nvme_smart_health_information_log": [1, 2]"#,
            r#""nvme_smart_health_information_log": {"media_errors": 18446744073709551616}"#,
            r#""ata_smart_attributes": {"table": {"id": 5}}"#,
            r#""ata_smart_attributes": {"table": [null, 5, {"id": "5"}, {"id": 5}]}"#,
            r#""ata_device_statistics": {"pages": [null, {"number": 7, "table": 3}]}"#,
            r#""scsi_error_counter_log": {"read": {"total_uncorrected_errors": "many"}}"#,
            r#""scsi_grown_defect_list": 1.5"#,
            r#""model_name": 5, "serial_number": " ""#,
        ];
        let expected = DriveHealth { assessment: Some("passed".into()), ..DriveHealth::default() };
        for row in rows {
            assert_eq!(said(&format!("{{{row}, {rest}}}")), expected, "{row}");
        }
        let invalid = ATA.replace(r#""valid": true"#, r#""valid": false"#);
        assert_eq!(said(&invalid).wear_percent, None);
        let most = format!(r#"{{"scsi_error_counter_log": {{"read": {0}, "write": {0}}}}}"#, {
            r#"{"total_uncorrected_errors": 18446744073709551615}"#
        });
        assert_eq!(said(&most).media_errors, Some(u64::MAX));
        let long = format!(r#"{{"model_name": "{}", {rest}}}"#, "é\\u0007".repeat(1000));
        assert_eq!(said(&long).model.map(|model| model.chars().count()), Some(NAME_CHARS_MAX));
    }

    #[test]
    fn an_answer_without_health_says_why() {
        let why = |answer: &str| parse(answer.as_bytes()).expect_err("nothing");
        let undetected = r#"{"smartctl": {"messages": [{"string": "Some note", "severity": "information"},
            {"string": "/dev/vda: Unable to\ndetect device type", "severity": "error"}], "exit_status": 1}}"#;
        assert_eq!(why(undetected), "/dev/vda: Unable to detect device type");
        let asleep = r#"{"smartctl": {"exit_status": 2, "messages": [
            {"string": "Device is in STANDBY mode, exit(2)", "severity": "information"}]}, "model_name": "ST8000"}"#;
        assert_eq!(why(asleep), "Device is in STANDBY mode, exit(2)");
        for silent in
            ["{}", "[]", "7", r#"{"smartctl": 3}"#, r#"{"smartctl": {"messages": [1, {"string": " "}]}}"#]
        {
            assert_eq!(why(silent), "the device has no SMART that smartctl reads", "{silent}");
        }
    }

    #[test]
    fn no_prefix_and_no_damaged_byte_of_an_answer_ends_in_a_panic() {
        let is_no_json = |answer: &[u8]| parse(answer).expect_err("broken") == "smartctl has printed no JSON";
        for answer in [ATA, SAS, NVME].map(str::as_bytes) {
            for end in 0..answer.len() {
                assert!(is_no_json(&answer[..end]), "{end}");
            }
            for at in 0..answer.len() {
                let mut damaged = answer.to_vec();
                damaged[at] = 0xff;
                assert!(is_no_json(&damaged), "{at}");
                damaged[at] = b'9';
                drop(parse(&damaged));
            }
        }
        assert!(is_no_json(&b"[".repeat(100_000)), "as deep as it likes");
    }
}
