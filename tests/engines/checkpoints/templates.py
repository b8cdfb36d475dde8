"""Chat templates, as the families write their turns."""


def parts(**media: str) -> str:
    """A message's content: text as it is, media as told by kind."""
    shown = "".join(
        f"{{%- elif part['type'] == '{kind}' -%}}{{{{- '{written}' -}}}}"
        for kind, written in media.items()
    )
    return (
        "{%- if m['content'] is string -%}{{- m['content'] -}}{%- else -%}"
        "{%- for part in m['content'] -%}"
        "{%- if part['type'] == 'text' -%}{{- part['text'] -}}" + shown + "{%- endif -%}"
        "{%- endfor -%}{%- endif -%}"
    )


def turns(before: str, content: str, after: str, answer: str) -> str:
    """Every message between `before` and `after`; `answer` opens the model's turn. Jinja expressions."""
    return (
        f"{{%- for m in messages -%}}{{{{- {before} -}}}}{content}{{{{- {after} -}}}}{{%- endfor -%}}"
        f"{{%- if add_generation_prompt -%}}{{{{- {answer} -}}}}{{%- endif -%}}"
    )


def im_turns(gap: str, **media: str) -> str:
    """Turns as most families write them, `gap` behind the role."""
    before = f"'<|im_start|>' + m['role'] + '{gap}'"
    return turns(before, parts(**media), "'<|im_end|>\\n'", f"'<|im_start|>assistant{gap}'")


def plain_turns(image: str) -> str:
    """Roles in capitals, as Vicuna's."""
    return turns("m['role'].upper() + ': '", parts(image=image), "' '", "'ASSISTANT:'")


KIMI = turns(
    "'<|im_' + m['role'] + '|>' + m['role'] + '<|im_middle|>'",
    parts(image="<|media_begin|>image<|media_content|><|media_pad|><|media_end|>"),
    "'<|im_end|>'",
    "'<|im_assistant|>assistant<|im_middle|>'",
)
SMOL = (
    "<|im_start|>{% for m in messages %}{{ m['role'] | capitalize }}"
    "{% if m['content'] is string %}{{ ': ' + m['content'] }}{% else %}"
    "{% if m['content'][0]['type'] == 'image' %}{{ ':' }}{% else %}{{ ': ' }}{% endif %}"
    "{% for part in m['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}{% else %}{{ '<image>' }}{% endif %}"
    "{% endfor %}{% endif %}<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{%- for m in messages -%}{{ '<start_of_turn>' + m['role'] + '\n' }}"
    "{%- if m['content'] is string -%}{{ m['content'] }}{%- else -%}"
    "{%- for part in m['content'] -%}"
    "{%- if part['type'] == 'image' -%}{{ '<start_of_image>' }}{%- else -%}"
    "{{ part['text'] | trim }}{%- endif -%}{%- endfor -%}{%- endif -%}{{ '<end_of_turn>\n' }}"
    "{%- endfor -%}{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}"
)
