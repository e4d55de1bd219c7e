"""Windows on Windows: a form of Windows Forms, shown by PowerShell.

The script is fixed; the form is one JSON object on its standard input, and so is the reply on its standard output, so
that neither is ever part of a command line.
"""

import msgspec

from switchboard.catalog.text import clean
from switchboard.prompts.dialogs_talk import Ended, NotShown, Step, Talk, label_of, title_of, warned
from switchboard.prompts.forms import Form, Reply

# Without double quotes, which would have to be escaped on the way. Both streams are opened by hand, because the console
# has a code page. The empty line says that the window is there. Nothing can be pressed in the first moment, for which
# the person may have been typing elsewhere, and nothing has the focus before a key is pressed. An ampersand is no
# access key. Services and remote shells have no desktop to show a window on.
_SCRIPT = """
$ErrorActionPreference = 'Stop'
if (-not [Environment]::UserInteractive) { exit 3 }
$utf8 = New-Object System.Text.UTF8Encoding($false)
$reader = New-Object System.IO.StreamReader([Console]::OpenStandardInput(), $utf8)
$output = [Console]::OpenStandardOutput()
function Say($text) {
  $bytes = $utf8.GetBytes($text)
  $output.Write($bytes, 0, $bytes.Length)
  $output.Flush()
}
Add-Type -AssemblyName System.Windows.Forms
Add-Type -AssemblyName System.Drawing
[System.Windows.Forms.Application]::EnableVisualStyles()
$form = ConvertFrom-Json $reader.ReadToEnd()
$state = @{ choice = $null }
$boxes = New-Object System.Collections.Specialized.OrderedDictionary
$window = New-Object System.Windows.Forms.Form
$window.Text = $form.title
$window.Font = [System.Drawing.SystemFonts]::MessageBoxFont
$window.AutoScaleMode = 'Font'
$window.StartPosition = 'CenterScreen'
$window.FormBorderStyle = 'FixedDialog'
$window.MaximizeBox = $false
$window.MinimizeBox = $false
$window.ShowIcon = $false
$window.TopMost = $true
$window.KeyPreview = $true
$window.AutoSize = $true
$window.AutoSizeMode = 'GrowAndShrink'
$rows = New-Object System.Windows.Forms.TableLayoutPanel
$rows.AutoSize = $true
$rows.ColumnCount = 1
$rows.Padding = New-Object System.Windows.Forms.Padding(12)
$facts = New-Object System.Windows.Forms.FlowLayoutPanel
$facts.FlowDirection = 'TopDown'
$facts.WrapContents = $false
$facts.AutoSize = $true
$facts.AutoScroll = $true
$height = [int]([System.Windows.Forms.Screen]::PrimaryScreen.WorkingArea.Height * 0.6)
$facts.MaximumSize = New-Object System.Drawing.Size(600, $height)
function Put($panel, $text, $space) {
  $label = New-Object System.Windows.Forms.Label
  $label.Text = $text
  $label.UseMnemonic = $false
  $label.AutoSize = $true
  $label.MaximumSize = New-Object System.Drawing.Size(560, 0)
  $label.Margin = New-Object System.Windows.Forms.Padding(3, 3, 3, $space)
  $panel.Controls.Add($label)
}
Put $facts $form.question 12
foreach ($line in $form.lines) { Put $facts $line 3 }
foreach ($text in $form.warnings) { Put $facts $text 3 }
$rows.Controls.Add($facts)
foreach ($field in $form.fields) {
  Put $rows $field.label 0
  $box = New-Object System.Windows.Forms.TextBox
  $box.Width = 560
  $box.UseSystemPasswordChar = $field.secret
  $boxes.Add($field.name, $box)
  $rows.Controls.Add($box)
}
$buttons = New-Object System.Windows.Forms.FlowLayoutPanel
$buttons.AutoSize = $true
$buttons.Enabled = $false
$buttons.Anchor = 'Right'
$buttons.Margin = New-Object System.Windows.Forms.Padding(0, 12, 0, 0)
foreach ($choice in $form.choices) {
  $button = New-Object System.Windows.Forms.Button
  $button.Text = $choice.label
  $button.UseMnemonic = $false
  $button.AutoSize = $true
  $button.Tag = $choice
  $button.Add_Click({
    if ($this.Tag.needs_fields) {
      foreach ($box in $boxes.Values) {
        if ($box.Text -eq '') { [void]$box.Focus(); return }
      }
    }
    $state.choice = $this.Tag
    $window.Close()
  })
  $buttons.Controls.Add($button)
}
$rows.Controls.Add($buttons)
$window.Controls.Add($rows)
$window.Add_KeyDown({ if ($_.KeyCode -eq 'Escape') { $window.Close() } })
$timer = New-Object System.Windows.Forms.Timer
$timer.Interval = 800
$timer.Add_Tick({ $timer.Stop(); $buttons.Enabled = $true })
$window.Add_Shown({ $window.Activate(); $timer.Start(); Say ([string][char]10) })
[void]$window.ShowDialog()
$said = @{ choice = $null; values = @{} }
if ($state.choice) {
  $said.choice = $state.choice.id
  if ($state.choice.needs_fields) { foreach ($name in $boxes.Keys) { $said.values[$name] = $boxes[$name].Text } }
}
Say (ConvertTo-Json -Compress -InputObject $said)
"""
_OPTIONS = ("-NoLogo", "-NoProfile", "-NonInteractive", "-Sta", "-Command", _SCRIPT)
_LONGEST = 4000


class _Said(msgspec.Struct):
    choice: str | None
    values: dict[str, str]


def powershell(program: str, form: Form) -> Talk:
    """Show a form with PowerShell."""
    ended = yield Step(command=(program, *_OPTIONS), given=_described(form))
    return _reply(form, ended)


def _described(form: Form) -> bytes:
    return msgspec.json.encode(
        {
            "title": title_of(form),
            "question": clean(form.question, _LONGEST),
            "lines": [line.stated(form.language, _LONGEST) for line in form.lines],
            "warnings": [warned(text, _LONGEST) for text in form.warnings],
            "fields": [{"name": each.name, "label": label_of(each), "secret": each.secret} for each in form.fields],
            "choices": [
                {"id": each.id, "label": label_of(each), "needs_fields": each.needs_fields} for each in form.choices
            ],
        }
    )


def _reply(form: Form, ended: Ended) -> Reply | None:
    """Read the reply, and hold it to the form: a program of another make may stand where PowerShell should."""
    try:
        said = msgspec.json.decode(ended.output, type=_Said)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NotShown from error
    choice = next((each for each in form.choices if each.id == said.choice), None)
    if choice is None:
        return None
    if not choice.needs_fields:
        return Reply(choice.id)
    values = {field.name: said.values.get(field.name, "") for field in form.fields}
    return Reply(choice.id, values) if all(values.values()) else None
