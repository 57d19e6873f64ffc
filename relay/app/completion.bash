# Words are broken at "=" and ":", so that a setting is four of them: --set, path, =, value.
_outbox_relay() {
  local word=${COMP_WORDS[COMP_CWORD]} command='' skip='' flag='' setting='' each next
  local -i at last=COMP_CWORD
  COMPREPLY=()
  if [ "$word" = '=' ]; then word=''; else last=$((last - 1)); fi
  for ((at = 1; at <= last; at++)); do
    each=${COMP_WORDS[at]}
    if [ "$each" = ':' ] || [ "$each" = '=' ]; then
      if [ "$flag" = '--set' ] && [ "${COMP_WORDS[at - 1]}" != '--set' ]; then
        setting=${COMP_WORDS[at - 1]}
      fi
      skip=1
      continue
    fi
    if [ -n "$skip" ]; then
      skip=''
      continue
    fi
    flag='' setting=''
    next="$command${command:+ }$each"
    if [ "${each#-}" != "$each" ]; then
      if _outbox_relay_takes_value "$command $each"; then flag=$each skip=1; fi
    elif _outbox_relay_is_command "$next"; then
      command=$next
    fi
  done
  if [ -z "$skip" ]; then flag='' setting=''; fi

  if [ -n "$setting" ]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_outbox_relay_setting "$setting")" -- "$word")
  elif [ "$flag" = '--set' ]; then
    mapfile -t COMPREPLY < <(compgen -W "$_outbox_relay_paths" -- "$word")
    compopt -o nospace 2>/dev/null
  elif [ -n "$flag" ] && _outbox_relay_is_file "$command $flag"; then
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
    compopt -o filenames 2>/dev/null
  elif [ -n "$flag" ]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_outbox_relay_choices "$command $flag")" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -W "$(_outbox_relay_words "$command")" -- "$word")
    if [ "${word#-}" = "$word" ] && _outbox_relay_is_file "$command"; then
      mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word")
    fi
  fi
}
complete -F _outbox_relay outbox-relay
