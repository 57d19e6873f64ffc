# Written by `outbox-relay completion`.
# The words of the command so far, flags left out.
function __outbox_relay_at
  set -l path
  set -l skip 0
  for word in (commandline -opc)[2..-1]
    if test $skip = 1
      set skip 0
    else if string match -q -- '-*' $word
      if contains -- $word @valued@
        set skip 1
      end
    else if contains -- (string join ' ' $path $word) @known@
      set -a path $word
    end
  end
  set -l joined (string join ' ' $path)
  test "$joined" = "$argv[1]"
end
complete -c outbox-relay -f
