_outbox_relay() {
  local command='' skip='' flag='' at each next setting
  for ((at = 2; at < CURRENT; at++)); do
    each=${words[at]}
    if [[ -n $skip ]]; then skip=''; continue; fi
    flag=''
    next="$command${command:+ }$each"
    if [[ $each == -* ]]; then
      if [[ $each != *=* ]] && _outbox_relay_takes_value "$command $each"; then
        flag=$each skip=1
      fi
    elif _outbox_relay_is_command "$next"; then
      command=$next
    fi
  done
  [[ -z $skip ]] && flag=''
  if [[ $flag == --set && $PREFIX == *=* ]]; then
    setting=${PREFIX%%=*}
    compset -P '*='
    compadd -- ${=$(_outbox_relay_setting "$setting")}
  elif [[ $flag == --set ]]; then
    compadd -S '' -- ${=_outbox_relay_paths}
  elif [[ -n $flag ]]; then
    if _outbox_relay_is_file "$command $flag"; then
      _files
    else
      compadd -- ${=$(_outbox_relay_choices "$command $flag")}
    fi
  else
    compadd -- ${=$(_outbox_relay_words "$command")}
    _outbox_relay_is_file "$command" && _files
  fi
}
if [ "$funcstack[1]" = _outbox-relay ]; then
  _outbox_relay "$@"
else
  compdef _outbox_relay outbox-relay
fi
