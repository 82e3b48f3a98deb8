"""Clarifying questions with the types that a person gave them, written for these tests.

TUNED questions were at hand while the rules of `analysis/question_types.py` were written; HELD_OUT ones were
labelled before the rules met them, and no rule was changed for them. One question a line: types, the primary
one first, and the question.
"""

from __future__ import annotations

Labelled = tuple[tuple[str, ...], str]


def read_labels(lines: str) -> tuple[Labelled, ...]:
    pairs = (line.split(" ", 1) for line in lines.strip().splitlines())
    return tuple((tuple(types.split("+")), question.strip()) for types, question in pairs)


TUNED = read_labels(
    """
region 您想查询哪个城市的公积金缴存标准？
region 您所在的省份是哪里？
region 您是想了解全国的情况还是某个省份的情况？
region 请问您想办理居住证的城市是哪个？
region 您想找哪个地区的月嫂服务？
region 您想查的是国内的还是国外的大学？
region 您在哪里上学？
region 您想去哪个国家留学？
region 您关注的是哪一个区县的落户政策？
region 您打算在哪儿购买？
region 具体是哪个省的高考？
region 您需要限定某个地区吗？
region 您是想问北京的还是上海的社保？
region 请问您的户籍所在地是？
region 您想了解本地的还是异地的就医报销？
time 您想了解哪一年的分数线？
time 您想查询的时间范围是什么？
time 您想看今年的还是往年的数据？
time 您打算什么时候出发？
time 您需要最新的政策还是历史政策？
time 您想了解哪个时间段的房价走势？
time 您有具体的年份要求吗？
time 您计划玩几天？
time 您想知道的是哪一届奥运会？
time 您是想查2023年还是2024年的报名时间？
time 您关注的是近几年的趋势吗？
time 您想查询几月份的天气？
time 孩子现在多长时间了？
time 您想了解哪个季节的旅游攻略？
entity 您说的“苹果”是指水果还是手机品牌？
entity 您具体指的是哪款车型？
entity 您想了解哪家银行的理财产品？
entity 您问的是哪个版本的教材？
entity 您想查询哪所大学的录取情况？
entity 您指的是哪位演员？
entity 您说的这部剧是哪一部？
entity 您想了解哪种证书？比如教师资格证、会计证？
entity 您想咨询的是哪项政策？
entity 您使用的是哪个品牌的路由器？
entity 您说的“小米”指的是公司还是粮食？
entity 您想报考哪个专业？
entity 您具体想问哪款手机？
scope 您主要想了解哪些方面的信息？
scope 您想了解哪方面的内容？比如价格、时间、地点。
scope 您是想了解申请条件还是申请流程？
scope 您想看的是哪种类型的电影？
scope 您是个人使用还是企业使用？
scope 这份计划是给谁用的？
scope 您买这台电脑主要用来做什么？
scope 您目前的学历是什么？
scope 孩子今年多大年龄了？
scope 您需要详细的步骤还是简单的概述？
scope 您想了解什么内容？
scope 您是初学者还是有一定基础？
scope 您想解决的是什么问题？
scope 您需要包括费用信息吗？
scope 您想问的是哪个阶段的课程内容？
criterion 您的预算大概是多少？
criterion 您说的“最好”是按什么标准来衡量的？
criterion 您更看重价格还是性能？
criterion 您能接受的价格区间是多少？
criterion 您想按什么排序？
criterion 您对“高收入”是怎么定义的？
criterion 您选购时最看重哪些因素？
criterion 您对尺寸有什么要求？
criterion 您的考试成绩大概是多少分？
criterion “性价比高”具体是指什么？
criterion 您希望的价位是高端还是平价？
criterion 您喜欢什么风格的装修？
region+time 您想查询哪个城市、哪一年的最低工资标准？
time+region 您想看哪一年、哪个省的录取分数线？
entity+region 您想了解哪家医院，在哪个城市？
other 为什么会有这个想法？
other 能再说清楚一点吗？
region Which city are you asking about?
region Where are you located?
region Are you interested in a specific country or region?
region Do you want options near you or anywhere in the US?
region In which state do you plan to register the car?
region Are you asking about domestic or international flights?
region What is your zip code?
region Which part of the country are you moving to?
region Are you looking for a location in Texas or California?
region Do you need this for a particular jurisdiction?
time Which year's tax rates do you need?
time Are you looking for current data or historical data?
time What time period are you interested in?
time When do you plan to travel?
time Do you want the latest results or those from a specific year?
time How long do you plan to stay?
time Which season are you planning to visit?
time Are you asking about 2023 or 2024?
time Is there a specific date range you have in mind?
time How recent should the information be?
entity Are you referring to the movie or the book?
entity Which model of the phone do you have?
entity Do you mean Python the language or the snake?
entity Which university are you interested in?
entity Who are you referring to?
entity Which version of the software are you using?
entity Are you asking about a specific brand?
entity Which company's stock would you like to know about?
entity Did you mean the company or the fruit?
entity Which of the band's albums? What album do you mean?
scope What type of information are you looking for?
scope Which aspect of climate change are you interested in?
scope Are you looking for recipes or nutritional information?
scope Is this for personal or business use?
scope What will you use the laptop for?
scope Who is the gift for?
scope Are you a beginner or an experienced player?
scope Would you like to know the history of the museum?
scope Do you want to know how to apply?
scope What kind of restaurant do you want?
scope Are you interested in buying or renting?
scope Which age group is the course for?
scope What would you like to know about solar panels?
scope How detailed should the answer be?
criterion What is your budget?
criterion How much are you willing to spend?
criterion What do you mean by "best"?
criterion Which features matter most to you?
criterion Should the ranking be based on price or quality?
criterion How do you define success here?
criterion Do you have a price range in mind?
criterion What size are you looking for?
criterion What criteria should be used to compare them?
criterion Do you care more about battery life or camera quality?
region+time Which country and which year are you interested in?
time+region Are you asking about a specific year or a specific state?
other Can you tell me more?
other Could you please clarify?
"""
)

HELD_OUT = read_labels(
    """
region 请问您想了解哪个省的中考政策？
region 您是要在市区找还是在郊区找？
region 您想去哪个城市旅游？
region 您计划在什么地方开店？
region 您是指中国大陆地区还是包括港澳台？
region 您的社保是在哪个城市缴纳的？
region 您查的是哪个国家的签证？
region 您需要的是全国统一标准还是地方标准？
time 您想了解的是哪个年代的流行歌曲？
time 您需要哪一年的真题？
time 您是想知道最近一次还是历史上的地震？
time 您预计什么时候参加考试？
time 手术后恢复多久了？
time 您想查当前的汇率还是过去某一天的汇率？
time 您要问的是上半年还是下半年的考试？
entity 您想查哪只基金的净值？
entity 您是说同名的电视剧还是小说？
entity 您提到的“系统”具体是哪一个？
entity 您想了解的是哪个游戏里的角色？
entity 您要办理哪家运营商的套餐？
entity 您想问哪部法律的规定？
entity 您说的张伟是哪一位？
scope 您想了解这个疾病的症状还是治疗方法？
scope 您更想知道理论知识还是实操技巧？
scope 您想了解哪一类保险？
scope 您是为成人还是儿童选购？
scope 您要查询的是本科还是研究生阶段？
scope 您希望用在什么场合？
scope 您想要哪种形式的资料？
scope 您是要自用还是送人？
criterion 您能接受的最高价格是多少？
criterion 您认为“好吃”的标准是什么？
criterion 您更在意续航还是拍照？
criterion 您希望按销量还是按评分排名？
criterion 您对通勤时间有什么要求？
criterion 您的身高体重大概是多少？
time+region 您想了解什么时候、哪个地区的疫情数据？
other 您好，可以说得具体点吗？
region Which state do you live in?
region Are you looking for jobs locally or abroad?
region What city will you be flying from?
region Do you have a specific neighborhood in mind?
region Is this for the UK or another country?
region Where would you like to buy it?
time Do you want this year's schedule or last year's?
time What dates are you considering?
time Which decade of music are you interested in?
time Are you interested in recent events or the past?
time What age was he then, or rather, in what year?
entity Which airline are you flying with?
entity Are you talking about the planet or the car maker?
entity Is there a particular author you have in mind?
entity Which exam are you preparing for?
entity What game console do you own?
scope Do you need a summary or the full text?
scope Are you looking for symptoms or treatments?
scope What is the purpose of your visit?
scope What level of difficulty do you want?
scope Are you asking as a student or as a teacher?
scope Do you want to know where the museum is?
scope What industry do you work in?
scope Are you interested in the causes of the war?
criterion How much weight do you want to lose?
criterion What price range are you comfortable with?
criterion Do you prefer quality or low cost?
criterion How would you rank them: by sales or by reviews?
criterion What is the minimum rating you would accept?
criterion Is price or durability more important to you?
region+time Which city, and in which month?
other Why do you ask?
"""
)
