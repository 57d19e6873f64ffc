# Written by `outbox-relay completion`.
_outbox_relay_words() {
  case "$1" in
@words@  esac
}
_outbox_relay_choices() {
  case "$1" in
@choices@    *) return 1 ;;
  esac
}
_outbox_relay_setting() {
  case "$1" in
@settings@  esac
}
_outbox_relay_paths=@paths@
_outbox_relay_is_command() { case "$1" in @known@) return 0 ;; *) return 1 ;; esac; }
_outbox_relay_takes_value() { case "$1" in @valued@) return 0 ;; *) return 1 ;; esac; }
_outbox_relay_is_file() { case "$1" in @files@) return 0 ;; *) return 1 ;; esac; }
